{"algorithm": "hmac-sha256", "signature": "f9cd28add7aaa6dec17da9ab61b3b44d40f8f0cea390d2d6de81f1b65c27ecaf"}
