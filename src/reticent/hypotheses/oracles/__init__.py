"""Exact algorithms that find the best hypothesis of a class."""
