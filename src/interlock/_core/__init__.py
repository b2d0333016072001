"""The lock algorithms: pure, typed, no I/O. Start reading in `effects` and `lock`."""
