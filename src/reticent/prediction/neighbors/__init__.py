"""Local answers that last: units near a question speak, and each pays for itself."""
