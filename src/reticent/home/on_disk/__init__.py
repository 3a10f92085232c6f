"""What a home keeps on disk: its identity, its versions, and copies of its ledger."""
