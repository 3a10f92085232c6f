"""Release: models that are themselves private, and may be shared."""
