"""``reticent init``: from a messy file to a model, question by question."""
