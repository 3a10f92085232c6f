"""People who log in with an OpenID provider: authorization code, PKCE, ID token."""
