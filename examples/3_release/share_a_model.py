"""Release a private model of census rows at several values of epsilon.

The model is trained by noisy gradient descent on public splines of the columns. The
released pipeline is an ordinary scikit-learn model: it answers without limit, and it
has a certificate.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from reticent.datasets import load_adult_sample
from reticent.learners import NoisyGradientClassifier
from reticent.schemas import Encoder, SchemaEncoder

columns, schema = load_adult_sample()
income = columns.pop("income")
train, test = np.arange(4000), np.arange(4000, 5000)


def part(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[rows] for name, values in columns.items()}


plain = make_pipeline(
    SchemaEncoder(schema, basis="splines"), LogisticRegression(max_iter=2000)
).fit(part(train), income[train])
print(f"without privacy: {plain.score(part(test), income[test]):.3f}")

bound = Encoder(schema, basis="splines").row_norm_bound
for epsilon in (0.5, 1.0, 4.0):
    released = make_pipeline(
        SchemaEncoder(schema, basis="splines"),
        NoisyGradientClassifier(
            epsilon, 1e-6, norm_bound=bound, classes=schema.classes
        ),
    ).fit(part(train), income[train])
    score = released.score(part(test), income[test])
    print(f"{released[-1].certificate_.headline()}: accuracy {score:.3f}")
