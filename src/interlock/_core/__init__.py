"""The lock algorithms: pure, typed, no I/O. Start reading in `model.effects` and `locks.lock`."""
