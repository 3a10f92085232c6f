"""A ledger in SQLite or PostgreSQL."""
