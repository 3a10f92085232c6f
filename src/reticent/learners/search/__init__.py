"""Choosing settings with the same records, in one certificate (G26)."""
