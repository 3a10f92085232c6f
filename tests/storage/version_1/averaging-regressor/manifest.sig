{"algorithm": "hmac-sha256", "signature": "b5be70a1b614e09a85a1f3d6bfc30461ddbdd77941c2fe5c0d29480ac5986817"}
