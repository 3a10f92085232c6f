{"algorithm": "hmac-sha256", "signature": "8c70296b03ca515d1e34e0af3b485172e38475776a4db17a817280c05c51564b"}
