"""What happens to every request: identity, limits, bodies, errors."""
