"""Fused models: many fitted models as one set of arrays."""
