"""Connections to the servers.

redis-py opens them. interlock sends and receives the bytes itself, because this is the hot path.
"""
