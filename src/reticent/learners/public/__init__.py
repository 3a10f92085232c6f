"""Releases with the help of public unlabelled rows: L4, M1 to M6."""
