"""The drivers: they perform the core's effects, with threads, asyncio or trio.

All of them use the same renewal thread.
"""
