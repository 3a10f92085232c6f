"""Linear models: losses, rows in a ball, stability, solvers, released coefficients."""
