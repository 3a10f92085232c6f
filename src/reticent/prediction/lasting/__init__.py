"""Any number of answers under one total: their durable state, and who may ask (P10)."""
