{"algorithm": "hmac-sha256", "signature": "af7f34eafad9fb798de232e595a0de9283ec06fe2c5b4e68b4ac7d1c1f62d341"}
