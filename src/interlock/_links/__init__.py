"""Connections to the servers.

interlock opens them and sends and receives the bytes itself. redis-py's clients may describe them.
"""
