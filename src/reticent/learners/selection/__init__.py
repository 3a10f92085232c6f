"""Releases that select one of many candidates: L1, L8, L9."""
