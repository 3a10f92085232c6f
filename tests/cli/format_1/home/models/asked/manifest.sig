{"algorithm": "hmac-sha256", "signature": "84a251838ebd3075a86360c9a82c17ff14c475d479e60dd57960f9cbd0538a65"}
