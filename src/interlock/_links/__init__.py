"""Bytes.

Connections that redis-py opens and interlock drives itself, because they are the hot path.
"""
