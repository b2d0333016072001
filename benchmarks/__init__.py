"""Measure interlock beside its peers: `python -m benchmarks --help`."""
