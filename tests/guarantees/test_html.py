"""Certificates, plans, interfaces and estimators as notebooks show them."""

import io
import re
import warnings
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent import Budget
from reticent._html import paragraph, table
from reticent.estimators import with_progress
from reticent.guarantees import PureDP, ReplaceOne, Scope, claim, pure_to_robust
from reticent.learners import NoisyGradientClassifier
from reticent.planning import plan
from reticent.prediction import PredictionInterface, PrivateVotingClassifier

VOID = {"br", "img", "hr", "input", "link", "meta"}


class Balanced(HTMLParser):
    """Checks that every element that opens is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(text):
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert not re.search(r"<script|https?://|src=", text)
    return re.sub(r"<[^>]+>", " ", text)


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    model = PrivateVotingClassifier(LogisticRegression(), 0.5, [0, 1], n_shards=10)
    return model.fit(X, y), X


def test_a_certificate_says_what_it_promises_and_why(fitted):
    certificate = fitted[0].certificate_
    text = checked(certificate._repr_html_())
    assert certificate.headline() in text
    assert "guesses right at most 63 times in 100" in text
    for node in certificate.walk():
        assert node.rule in text


def test_a_certificate_about_something_else_has_no_such_sentence():
    private = claim(PureDP(0.1), ReplaceOne(100), Scope.MODEL, statement="x")
    robust = pure_to_robust(private, beta=0.05)
    assert "guesses right" not in checked(robust._repr_html_())


def test_text_from_outside_is_shown_as_text():
    hostile = "<script>alert(1)</script>"
    assert "<script" not in paragraph(hostile) + table([hostile], [[hostile]])
    named = claim(PureDP(1.0), ReplaceOne(2), Scope.MODEL, statement=hostile)
    assert "<script" not in named._repr_html_()


def test_an_interface_says_what_is_left(fitted):
    model, X = fitted
    interface = PredictionInterface(model, Budget(epsilon=2.0))
    assert "nothing" in checked(interface._repr_html_())
    interface.predict(X[:1])
    text = checked(interface._repr_html_())
    assert re.search(r"answers left\s+3", text)
    assert "guesses right at most 89 times in 100" in text


def test_a_plan_is_a_table():
    found = plan("classification", 30_000, 1.0, delta=1e-6, queries=1, features=14)
    text = checked(found._repr_html_())
    for option in found.options:
        assert option.title in unescape(text)


@pytest.mark.parametrize(
    "model",
    [
        PrivateVotingClassifier(LogisticRegression(), 1.0),
        NoisyGradientClassifier(1.0, delta=1e-6),
        make_pipeline(StandardScaler(), NoisyGradientClassifier(1.0, delta=1e-6)),
    ],
    ids=["voting", "gradient", "pipeline"],
)
def test_estimators_are_shown_without_a_warning(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "epsilon" in model._repr_html_()


def test_progress_is_shown_where_somebody_watches():
    kernel = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    for stream, shown in ((kernel(), True), (io.StringIO(), False)):
        told = list(with_progress([1, 2], total=2, label="shards", stream=stream))
        assert told == [1, 2]
        assert ("shards" in stream.getvalue()) == shown
