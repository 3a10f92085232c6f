"""Commands about an installation: its models, its ledger, its keys, itself."""
