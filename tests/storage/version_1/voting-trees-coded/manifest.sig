{"algorithm": "hmac-sha256", "signature": "7abf50ee8e74ad8013c9d9658fc8494629c44118ecce8ca97a1adc5b52a6bc58"}
