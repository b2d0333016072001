"""Who waits: places, lines, and the wait itself."""
