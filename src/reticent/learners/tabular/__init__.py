"""Released models of tables: sums over single columns and random partitions."""
