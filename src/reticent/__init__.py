"""Use models trained on sensitive records without giving the records away."""

__version__ = "0.1.0"
