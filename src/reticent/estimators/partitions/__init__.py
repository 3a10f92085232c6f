"""Partitions of declared columns, and models that are sums over their parts."""
