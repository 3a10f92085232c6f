"""Holdouts and leaderboards that survive being asked again and again (R3)."""
