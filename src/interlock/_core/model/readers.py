"""The entries of readers that only the server knows, as keys of a second call.

A script may touch only the keys that it was given. Each entry of a reader is a key, and other
readers may be anybody's. So a script that must look at their entries changes nothing at first. It
answers with the error ``ENTRIES``, which names the readers and their depths. Then the same call is
sent with their entries as its last keys. It is not asked again: a reader that has come meanwhile
counts as alive, for as long as the lock.

An uncontended call, or one that finds only its own readers, is never asked.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlock._core.model import names

if TYPE_CHECKING:
    from interlock._core.model.calls import Eval

R = TypeVar("R")

ENTRIES = "ENTRIES"
"""How the error begins."""
_READER = re.compile(r"(?<= )([^ ]+) ([1-9][0-9]{0,2}|1000)(?= |$)")
_ASSUME = "-"
"""Says that readers who were not told count as alive, for as long as the lock."""


def declaring(call: Eval[R], error: str) -> Eval[R]:
    """Return *call* with the entries that the server asks for by *error*."""
    told, prefix = f"{_ASSUME}{len(call.keys)}", names.read_entries(call.keys[0])
    keys = list(call.keys)
    for reader, depth in _READER.findall(error):
        told += f";{reader} {depth}"
        keys += [names.read_entry(prefix, reader, n + 1) for n in range(int(depth))]
    return _with(call, tuple(keys), told)


def settled(call: Eval[R]) -> Eval[R]:
    """Return *call* so that it is not asked: other readers count as alive, as long as the lock."""
    return _with(call, call.keys, _ASSUME) if call.asks else call


def _with(call: Eval[R], keys: tuple[str, ...], told: str) -> Eval[R]:
    args = (*call.args[: call.asks], told, *call.args[call.asks + 1 :])
    return replace(call, keys=keys, args=args, packed=None)
