"""HighwayHash-128: the hash that stands for a value inside a group lock.

A keyed hash of 64-bit words in four lanes. Each packet of 32 bytes is added and multiplied, and the
bytes are shuffled. Six more rounds finish the hash. The code is our own, because no maintained
package has it. A short value takes about 0.2 ms, and the last results are cached.

Redisson's key is fixed: nothing here is a secret.

Source: Alakuijala, Cox, Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply
and permute" (2016); Redisson's ``Hash.hash128toBase64``.
"""

from __future__ import annotations

import base64
import functools
import operator
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEY: Final = (0x9E3779B97F4A7C15, 0xF39CC0605CEDC834, 0x1082276BF3A27251, 0xF86C6A11D0C18E95)
_MASK: Final = 0xFFFFFFFFFFFFFFFF
_LOW: Final = 0xFFFFFFFF
_MUL0: Final = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1: Final = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_WORDS: Final = struct.Struct("<2Q")
_PACKET: Final = struct.Struct("<4Q")
_ZIPPER: Final = operator.itemgetter(3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
"""Where each byte of a pair of words comes from when they are interleaved."""


@functools.lru_cache(maxsize=10_000)
def field(value: str) -> str:
    """Return the hash field that stands for *value*, as Java computes it with a StringCodec.

    Base64 without its padding.
    """
    return base64.b64encode(struct.pack(">QQ", *_hash128(value.encode()))).decode().rstrip("=")


def _hash128(data: bytes) -> tuple[int, int]:
    """Return the 128 bits of *data* as two numbers, the lower one first."""
    state = _State()
    whole = len(data) - len(data) % _PACKET.size
    for packet in _PACKET.iter_unpack(data[:whole]):
        state.update(packet)
    if whole < len(data):
        state.update_remainder(data[whole:])
    v0, v1, mul0, mul1 = state.v0, state.v1, state.mul0, state.mul1
    for _ in range(6):
        state.update([_swap_halves(v0[i]) for i in (2, 3, 0, 1)])
    return (
        (v0[0] + mul0[0] + v1[2] + mul1[2]) & _MASK,
        (v0[1] + mul0[1] + v1[3] + mul1[3]) & _MASK,
    )


def _swap_halves(word: int) -> int:
    return word >> 32 | (word & _LOW) << 32


class _State:
    """Four lanes of four words each."""

    def __init__(self) -> None:
        self.mul0, self.mul1 = list[int](_MUL0), list[int](_MUL1)
        self.v0 = [mul ^ word for mul, word in zip(_MUL0, _KEY, strict=True)]
        self.v1 = [mul ^ _swap_halves(word) for mul, word in zip(_MUL1, _KEY, strict=True)]

    def update(self, packet: Sequence[int]) -> None:
        """Take in 32 bytes."""
        v0, v1, mul0, mul1 = self.v0, self.v1, self.mul0, self.mul1
        for i in range(4):
            v1[i] = (v1[i] + mul0[i] + packet[i]) & _MASK
            mul0[i] ^= (v1[i] & _LOW) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & _MASK
            mul1[i] ^= (v0[i] & _LOW) * (v1[i] >> 32)
        _zipper_merge_and_add(v1, v0)
        _zipper_merge_and_add(v0, v1)

    def update_remainder(self, rest: bytes) -> None:
        """Take in the last bytes, fewer than 32."""
        size = len(rest)
        for i in range(4):
            self.v0[i] = (self.v0[i] + (size << 32) + size) & _MASK
            low, high = self.v1[i] & _LOW, self.v1[i] >> 32
            self.v1[i] = _rotate(high, size) << 32 | _rotate(low, size)
        words, odd = size & ~3, size & 3
        packet = bytearray(_PACKET.size)
        packet[:words] = rest[:words]
        if size & 16:
            packet[28:] = rest[-4:]
        elif odd:
            packet[16:19] = rest[words], rest[words + odd // 2], rest[-1]
        self.update(_PACKET.unpack(packet))


def _rotate(word: int, by: int) -> int:
    """Return the 32-bit *word* rotated to the left."""
    return (word << by | word >> (32 - by)) & _LOW


def _zipper_merge_and_add(source: list[int], target: list[int]) -> None:
    """Interleave the bytes of each pair of words in *source*, and add them to *target*.

    So the well-mixed bytes of one product meet the poorly mixed bytes of the other.
    """
    for i in (0, 2):
        merged = bytes(_ZIPPER(_WORDS.pack(*source[i : i + 2])))
        for lane, word in enumerate(_WORDS.unpack(merged), i):
            target[lane] = (target[lane] + word) & _MASK
