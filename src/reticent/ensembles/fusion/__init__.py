"""Many fitted models as one set of arrays, so that one pass answers for all of them."""
