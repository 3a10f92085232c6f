"""Reuse one dataset many times with a bound on overfitting (R1-R3).

Compression learners overfit by at most a certified amount; a session mixes them with
private and few-bit answers under one bound; holdouts and leaderboards can be asked
thousands of times; and `overfitting` turns any certificate into such a bound.
"""

from reticent.generalization.compression.boosting import BoostingScheme
from reticent.generalization.compression.classifier import (
    CompressionClassifier,
    DecodedHypothesis,
)
from reticent.generalization.compression.kept_examples import KeptExamples
from reticent.generalization.compression.perceptron import PerceptronScheme
from reticent.generalization.compression.rectangle import RectangleScheme
from reticent.generalization.compression.refitting import SubsampleScheme, SVMScheme
from reticent.generalization.compression.rules import kept_examples, kept_to_robust
from reticent.generalization.compression.scheme import Scheme
from reticent.generalization.compression.threshold_interval import (
    IntervalScheme,
    ThresholdScheme,
)
from reticent.generalization.holdout.answers import HoldoutAnswer
from reticent.generalization.holdout.design import HoldoutDesign
from reticent.generalization.holdout.holdout import ReusableHoldout
from reticent.generalization.holdout.ladder import Ladder
from reticent.generalization.holdout.rules import (
    AnswerAccuracy,
    answers_to_truth,
    ladder_transcripts,
    rounded_holdout,
    thresholdout,
)
from reticent.generalization.overfitting import Overfitting, overfitting
from reticent.generalization.session.costs import SessionCost
from reticent.generalization.session.rules import session_to_robust, unit_sum
from reticent.generalization.session.session import AdaptiveSession, SessionPredictor

__all__ = [
    "AdaptiveSession",
    "AnswerAccuracy",
    "BoostingScheme",
    "CompressionClassifier",
    "DecodedHypothesis",
    "HoldoutAnswer",
    "HoldoutDesign",
    "IntervalScheme",
    "KeptExamples",
    "Ladder",
    "Overfitting",
    "PerceptronScheme",
    "RectangleScheme",
    "ReusableHoldout",
    "SVMScheme",
    "Scheme",
    "SessionCost",
    "SessionPredictor",
    "SubsampleScheme",
    "ThresholdScheme",
    "answers_to_truth",
    "kept_examples",
    "kept_to_robust",
    "ladder_transcripts",
    "overfitting",
    "rounded_holdout",
    "session_to_robust",
    "thresholdout",
    "unit_sum",
]
