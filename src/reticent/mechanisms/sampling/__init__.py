"""Random bits, and exact samplers on top of them."""
