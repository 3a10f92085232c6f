"""Private answers from an unchanged scikit-learn pipeline, and what they cost.

A pipeline with imputation, scaling and boosted trees is trained on disjoint shards.
Each answer is a private vote. All clients share one budget; when it is spent, further
questions are refused.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent import Budget
from reticent.errors import BudgetExhaustedError
from reticent.prediction import PredictionInterface, PrivateVotingClassifier

X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
train, test = order[:450], order[450:]

pipeline = make_pipeline(
    SimpleImputer(), StandardScaler(), GradientBoostingClassifier(n_estimators=10)
)
model = PrivateVotingClassifier(
    pipeline, epsilon=0.4, classes=[0, 1], n_shards=15, rule="soft"
)
model.fit(X[train], y[train])
print(model.certificate_)

interface = PredictionInterface(model, Budget(epsilon=8.0, delta=1e-6))
answers = interface.predict(X[test[:20]], client="ward 7")
print(f"20 answers to ward 7: {np.mean(answers == y[test[:20]]):.0%} right")
print("spent:", interface.spent().headline())

asked = 20
try:
    for row in test[20:]:
        interface.predict(X[[row]], client="ward 8")
        asked += 1
except BudgetExhaustedError as refusal:
    print(f"after {asked} answers: {refusal}")
print("spent at the end:", interface.spent().headline())
