"""Real servers, a proxy that makes faults, and other means of the tests and benchmarks."""
