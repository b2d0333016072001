"""Every test, and what the tests stand on: import helpers as `tests.support.servers`."""
