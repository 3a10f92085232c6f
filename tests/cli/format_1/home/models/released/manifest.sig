{"algorithm": "hmac-sha256", "signature": "1f04159e7ef2b960768056116fdaf17c2fc80dff884404ef166e16acbbb1fd1d"}
