"""Answers by a hypothesis that is selected again for each query (P5 to P7)."""
