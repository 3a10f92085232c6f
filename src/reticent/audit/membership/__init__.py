"""Membership inference: what an attacker achieves, compared with what is allowed."""
