"""The fate of a lock when the primary dies before a replica has seen it."""
