"""Hash slots: the slot of a key."""

from __future__ import annotations

from binascii import crc_hqx
from functools import lru_cache

SLOTS = 1 << 14


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    """Return the slot of *key* (or of a sharded channel).

    Source: the cluster specification of redis.io: CRC16 (XMODEM) of the hash tag, or of all.
    """
    whole = key.encode()
    begin = whole.find(b"{") + 1
    end = whole.find(b"}", begin) if begin else -1
    return crc_hqx(whole[begin:end] if end > begin else whole, 0) % SLOTS
