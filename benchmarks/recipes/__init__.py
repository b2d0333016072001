"""Events, barriers and elections beside kazoo's recipes: `python -m benchmarks recipes`."""
