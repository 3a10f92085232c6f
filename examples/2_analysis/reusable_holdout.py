"""Choose among 500 models with one holdout, and still report an honest score.

Grid search on a plain holdout reports the luckiest of 500 scores. Here the search
queries a `ReusableHoldout` instead. The guess for each candidate is its score on a
validation part of the training data, and the holdout returns another number only if it
disagrees. The reported score is within a bound of the score on new data, and the bound
is stated before the search.
"""

from __future__ import annotations

from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.tree import DecisionTreeClassifier

from reticent.generalization import ReusableHoldout

# A large test set stands for "new data", so that the true score can be shown.
X, y = make_classification(
    40_000, 15, n_informative=4, n_redundant=0, flip_y=0.3, random_state=0
)
X, X_new, y, y_new = train_test_split(X, y, train_size=8_000, random_state=0)
X_train, X_held, y_train, y_held = train_test_split(X, y, test_size=0.6, random_state=0)

candidates = {
    "max_depth": range(2, 12),
    "min_samples_leaf": [1, 2, 5, 10, 20],
    "max_features": [0.1, 0.2, 0.4, 0.7, 1.0],
    "random_state": [0, 1],
}
model = DecisionTreeClassifier()
validation = ShuffleSplit(1, test_size=0.4, random_state=0)

holdout = ReusableHoldout(
    X_held, y_held, queries=501, overfits=8, guess_units=int(0.4 * len(X_train))
)
print(f"before the search: every score within {holdout.error_at_most:.3f} of the truth")

search = GridSearchCV(model, candidates, scoring=holdout.scorer, cv=validation)
search.fit(X_train, y_train)
n_candidates = len(search.cv_results_["params"])
asked = holdout.design.overfits - holdout.overfits_left
print(f"{n_candidates} candidates; the holdout disagreed {asked} times")

# A wrong guess makes the holdout return its own number.
final = holdout.score(search.best_estimator_, guess=0.0)
truth = search.best_estimator_.score(X_new, y_new)
bound = holdout.error_at_most
print(f"best score in the search {search.best_score_:.3f}")
print(f"final score {final.value:.3f} +- {bound:.3f}; on new data {truth:.3f}")
print()
print(holdout.accuracy)

if abs(final.value - truth) > bound:
    raise SystemExit("the bound failed, which happens in 5 % of all searches")
