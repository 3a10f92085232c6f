"""Exact verification: the law of every answer, compared between neighbours."""
