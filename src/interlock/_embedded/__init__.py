"""A real server that this user's processes on this machine share, for when nobody configured one.

``place`` says where a server lives, and ``binary`` which program it runs. ``server`` joins or starts
the server. ``supervisor`` is the small process that ends it after its last client. Everything here
blocks: asyncio calls `ensure` in a thread.
"""

from interlock._embedded.binary import find_binary
from interlock._embedded.server import EmbeddedServer, ensure

__all__ = ["EmbeddedServer", "ensure", "find_binary"]
