"""Releases of linear models: noise on coefficients, objectives or gradients."""
