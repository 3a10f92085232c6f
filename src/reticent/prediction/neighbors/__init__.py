"""Local answers that last: units near a question vote, and each pays for itself."""
