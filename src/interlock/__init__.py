"""Distributed locks for Python on Redis and Valkey, on the same wire as Redisson."""
