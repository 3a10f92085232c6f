"""A toy rule: one number that its tests pin, and one that they do not."""

import math

SHARE = 4


def pinned(epsilon):
    return math.tanh(epsilon / SHARE) - 2 * epsilon


def unpinned(epsilon):
    return 3 * epsilon
