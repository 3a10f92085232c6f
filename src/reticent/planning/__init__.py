"""Plan: which method, how many shards, what error to expect and what it costs.

From public facts alone. Bounds are theorems; estimates rest on a stated model.
"""

from reticent.planning.facts import Facts
from reticent.planning.option import Option
from reticent.planning.planner import Plan, plan

__all__ = ["Facts", "Option", "Plan", "plan"]
