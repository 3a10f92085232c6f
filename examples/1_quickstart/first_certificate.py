"""From records to private answers, and to the certificate of what they cost.

Twenty-five small models learn from disjoint shards of patients' records. They vote on
each query, and a soft vote with exact noise draws the answer. One answer costs little;
the certificate says what 200 of them cost together, and why.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from reticent.guarantees import Certificate, recheck, repeat
from reticent.mechanisms import SystemSource, soft_vote, soft_vote_certificate

EPSILON, DELTA = 0.2, 1e-6
SHARDS, QUERIES = 25, 200

source = SystemSource()
X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))  # some rows serve as queries
queries, truth = X[order[:QUERIES]], y[order[:QUERIES]]
records, labels = X[order[QUERIES:]], y[order[QUERIES:]]

# Shards are assigned by position, never by content: one record affects one model.
shards = np.array_split(source.permutation(len(records)), SHARDS)
tree = {"max_depth": 2, "random_state": 0}
models = [
    DecisionTreeClassifier(**tree).fit(records[shard], labels[shard])
    for shard in shards
]
ballots = np.stack([model.predict(queries) for model in models])
votes = np.stack([(ballots == label).sum(axis=0) for label in (0, 1)], axis=1)

answers = soft_vote(votes, EPSILON).draw(source)
answer = soft_vote_certificate(n=len(records), epsilon=EPSILON, seeded=source.seeded)
total = repeat(answer, times=QUERIES, delta=DELTA)

print(f"{SHARDS} models, {len(records)} records, {QUERIES} private answers")
print(f"right without noise: {np.mean(votes.argmax(axis=1) == truth):.0%}")
print(f"right with privacy:  {np.mean(answers == truth):.0%}")
print("\nOne answer:\n")
print(answer)
print(f"\nAll {QUERIES}, chosen adaptively or not:\n")
print(total)
pure = repeat(answer, times=QUERIES, delta=DELTA, methods=("basic", "exact"))
print(f"\nWithout the bounded range of the soft vote: {pure.guarantee}")

# Anybody who receives the certificate can check it.
received = Certificate.from_json(total.to_json())
recheck(received)
print(f"\nDerived again from its JSON: certificate {received.id[:12]} holds.")
