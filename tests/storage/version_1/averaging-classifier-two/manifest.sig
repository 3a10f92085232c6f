{"algorithm": "hmac-sha256", "signature": "be4f06bdaea3073b594084aee4b0578269843f6500d320d66fcdb5b215dba1d6"}
