"""How time and memory grow with rows, shards, features and queries."""
