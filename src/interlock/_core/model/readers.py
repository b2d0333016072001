"""The entries of readers that only the server knows, as keys of a second call.

A script may touch only the keys that it was given. Each entry of a reader is a key, and other
readers may be anybody's. So a script that must look at their entries changes nothing at first. It
answers with the error ``ENTRIES``, which names the readers and their depths. Then the same call is
sent with their entries as its last keys. If readers have come meanwhile, it is asked again.

An uncontended call, or one that finds only its own readers, is never asked.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlock._core.model import names

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval

R = TypeVar("R")

ENTRIES = "ENTRIES "
"""How the error begins."""
_READER = re.compile(r"(?<= )([^ ]+) ([1-9][0-9]{0,2}|1000)(?= |$)")
_ASSUME = "-"
"""Says that readers who were not told count as alive, for as long as the lock."""


def declaring(call: Eval[R], error: str) -> Eval[R]:
    """Return *call* with the entries that the server asks for by *error*."""
    told, prefix = str(len(call.keys)), names.read_entries(call.keys[0])
    keys = list(call.keys)
    found = _READER.findall(error)
    if error != " ".join([ENTRIES.strip(), *(f"{reader} {depth}" for reader, depth in found)]):
        told = _ASSUME + told
    for reader, depth in found:
        told += f";{reader} {depth}"
        keys += [names.read_entry(prefix, reader, n + 1) for n in range(int(depth))]
    return _with(call, tuple(keys), told)


def foreseen(call: Eval[R]) -> Eval[R]:
    """Return *call* with the entries that it will be asked for, as far as they are known."""
    return declaring(call, ENTRIES + call.readers) if call.readers else call


def settled(call: Eval[R]) -> Eval[R]:
    """Return *call* so that it is not asked: other readers count as alive, as long as the lock."""
    return _with(call, call.keys, _ASSUME) if call.asks else call


def _with(call: Eval[R], keys: tuple[str, ...], told: str) -> Eval[R]:
    args = (*call.args[: call.asks], told, *call.args[call.asks + 1 :])
    return replace(call, keys=keys, args=args, packed=None, readers="")
