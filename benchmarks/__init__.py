"""Benchmarks: interlock beside other locks, and beside another version of itself."""
