"""The locks: `base` and `release` have the algorithm, each other file one kind."""
