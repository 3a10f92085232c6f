{"algorithm": "hmac-sha256", "signature": "ef771ccd42feef297d3415472f4e4326581671b3f3fa1921cd92f84d4a603117"}
