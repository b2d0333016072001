"""A model of Redis in memory: for the simulator, and served to clients by strict rules."""
