"""Learners around other learners: confidence, subsampling, resampling (L6, L7, L10)."""
