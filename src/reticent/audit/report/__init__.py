"""The report of an audit: checks, an attack, pictures, one page."""
