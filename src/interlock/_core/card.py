"""Cards: what a client writes about itself, for operators.

No lock algorithm reads a card.
"""

from __future__ import annotations

FORMAT = 1
"""What cards of this version say of their format."""
CARD = "interlock_client:{{{}}}"
"""The key of a client's card; its id goes in, in braces."""
INDEX = "interlock_clients"
"""The sorted set of the clients that have a card (score: when it expires, epoch milliseconds)."""
