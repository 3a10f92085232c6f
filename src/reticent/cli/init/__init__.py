"""``reticent init``: from a messy file to a model, one question after the other."""
