"""One linear model, stable by convexity, behind noise (P3)."""
