"""The report of an audit: checks, an attack, plots, one page."""
