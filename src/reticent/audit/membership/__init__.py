"""Membership inference: what an attacker achieves against what is allowed."""
