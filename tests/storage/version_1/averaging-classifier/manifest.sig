{"algorithm": "hmac-sha256", "signature": "245d89961b41a065c3533cdf9ea312d1bff6b1e098f4ed0d06a6a68dbeb41130"}
