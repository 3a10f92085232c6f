"""Predictors over disjoint shards: their rows, the number of shards, training, sums."""
