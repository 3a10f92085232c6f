"""Real data that comes with the package: small, public, with its licence."""

from reticent.datasets.adult import SampleFiles, adult_sample_files, load_adult_sample

__all__ = ["SampleFiles", "adult_sample_files", "load_adult_sample"]
