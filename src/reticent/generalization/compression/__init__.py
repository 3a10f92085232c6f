"""Classifiers that are decoded from a few of their examples (R1)."""
