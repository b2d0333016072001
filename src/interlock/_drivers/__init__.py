"""The drivers: they perform the core's effects, with threads, asyncio or trio.

All of them use the same threads in the background: the upkeep and its lanes, and the subscriber.
"""
