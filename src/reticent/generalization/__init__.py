"""Look at one dataset again and again without fooling yourself (R1-R3).

Compression learners cannot overfit by more than they say; a session mixes them with
private and few-bit answers under one bound; holdouts and leaderboards can be asked
thousands of times; and `overfitting` reads any certificate as such a bound.
"""

from reticent.generalization.boosting import BoostingScheme
from reticent.generalization.compression import (
    CompressionClassifier,
    DecodedHypothesis,
)
from reticent.generalization.compression_rules import kept_examples, kept_to_robust
from reticent.generalization.costs import SessionCost
from reticent.generalization.holdout import ReusableHoldout
from reticent.generalization.holdout_answers import HoldoutAnswer
from reticent.generalization.holdout_design import HoldoutDesign
from reticent.generalization.kept import KeptExamples
from reticent.generalization.ladder import Ladder
from reticent.generalization.line import IntervalScheme, ThresholdScheme
from reticent.generalization.overfitting import Overfitting, overfitting
from reticent.generalization.perceptron import PerceptronScheme
from reticent.generalization.rectangle import RectangleScheme
from reticent.generalization.refitting import SubsampleScheme, SVMScheme
from reticent.generalization.reuse_rules import (
    AnswerAccuracy,
    answers_to_truth,
    ladder_transcripts,
    rounded_holdout,
    thresholdout,
)
from reticent.generalization.scheme import Scheme
from reticent.generalization.session import AdaptiveSession, SessionPredictor
from reticent.generalization.session_rules import session_to_robust, unit_sum

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
