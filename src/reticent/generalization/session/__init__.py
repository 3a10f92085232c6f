"""Adaptive analysis under a bound that was promised in advance (R2)."""
