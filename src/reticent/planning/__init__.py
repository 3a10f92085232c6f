"""Chooses a method and its settings from public facts, with expected error and cost.

Bounds are theorems; estimates rest on a stated model.
"""

from reticent.planning.facts import Facts
from reticent.planning.option import Option
from reticent.planning.planner import Plan, plan

__all__ = ["Facts", "Option", "Plan", "plan"]
