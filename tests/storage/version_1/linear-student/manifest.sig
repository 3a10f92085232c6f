{"algorithm": "hmac-sha256", "signature": "87d2ab47b61bd8f6e1d3eec48cfb5966040443cf9563b612e5f43673e2ac97fc"}
