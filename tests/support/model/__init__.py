"""A model of Redis in memory, for the simulator."""
