"""What a check is to be about, and what a user must be permitted for it.

The commands are read from the scripts, which therefore cannot need one that is not named here. The
keys and channels follow from the names: each that is not called like its object has the name in
braces, behind a beginning that is Redisson's or ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from interlock._core.insight.card import index_of
from interlock._core.scripts.source import text_of
from interlock.errors import ConfigError
from interlock.inspection.kinds import KINDS
from interlock.options import Options, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PATTERN = re.compile(r"[^*?\[\]\\\s]*\*?")
_INSPECTION = resources.files("interlock.inspection").joinpath("lua")
_COMMENT = re.compile(r"--.*")
_CALL = re.compile(r"(?:redis\.p?call|asked)\('(\w+)'")
OPTIONAL = frozenset({"pubsub", "cluster"})
"""Commands that scripts do without where they are not permitted, or call in a cluster only."""
LIBRARY = "client|setinfo"
"""What tells the server which library connects; older servers refuse a rule with that name."""
OPERATIONS = {
    # To write cards, to read who has a lock, and to ask why it was released by force.
    "cards": ("card_write", "card_holder", "forced_note_read"),
    # To list, show and break holds; to break one takes the rights of the lock, too.
    "operator": ("card_read", "lock_info", "forced_note_write", "forced_note_read"),
}
"""What goes beyond the objects -> its scripts.

Clients do without cards, applications without operators.
"""
TO_BREAK = frozenset({"get", "set"})
"""What goes around the release of another client's hold, so that it takes effect once."""
OTHERS = {
    "cards": ("client|setname", LIBRARY),
    "operator": ("scan", "zscan", "pubsub|numsub", "client|list", "info"),
}
"""Commands that none of their scripts calls."""


def objects() -> dict[str, tuple[str, ...]]:
    """Return the scripts of each kind that needs rights of its own."""
    return {name: kind.scripts for name, kind in KINDS.items() if kind.scripts}


@cache
def _called(script: str) -> frozenset[str]:
    """Return the commands that *script* calls; PUBLISH, which has two names, is not among them."""
    own = _INSPECTION.joinpath(f"{script}.lua")
    text = own.read_text(encoding="utf-8") if own.is_file() else text_of(script)
    return frozenset(_CALL.findall(_COMMENT.sub("", text))) - OPTIONAL


@dataclass(frozen=True, slots=True)
class Requirements:
    """What the application does, as far as a server's fitness depends on it.

    Attributes:
        objects: the kinds that it uses, by the names of their factories.
        names: how its objects are called: a name, or the beginning of names and ``*``.
        options: the client's.
        finding: commands that finding the servers takes.
        sharded: whether messages go by sharded channels.
        library: whether the servers know CLIENT SETINFO, from Redis 7.2 and in Valkey.
    """

    objects: Sequence[str] = ("lock",)
    names: str = "*"
    options: Options = field(default_factory=Options)
    finding: tuple[str, ...] = ()
    sharded: bool = False
    library: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.objects, str):  # its letters are strings, too
            object.__setattr__(self, "objects", (self.objects,))
        known = objects()
        unknown = [kind for kind in self.objects if kind not in known | OPERATIONS]
        if unknown or not self.objects:
            raise ConfigError(f"wanted objects of {', '.join(known)}, found {unknown or 'none'}")
        object.__setattr__(self, "names", check_name(self.names))
        if not _PATTERN.fullmatch(self.names):
            raise ConfigError(
                "names must be a name, or the beginning of names and *, such as 'locks:*', "
                f"not {self.names!r}"
            )

    def acl_line(self) -> str:
        """Return the line of an ACL file that permits that to a user, and nothing more."""
        known = objects() | OPERATIONS
        scripts = [script for kind in self.objects for script in known[kind]]
        called = frozenset[str]().union(*map(_called, scripts))
        kinds = [KINDS[kind] for kind in self.objects if kind in KINDS]
        if "spin_lock" in self.objects or any(kind.core for kind in kinds):
            called |= TO_BREAK
        commands = ["evalsha", "eval", *sorted(called)]
        keys, channels = self._places()[0], self.channels
        if len(kinds) < len(self.objects):
            keys += self._cards()
        if channels:
            shard = "s" if self.sharded else ""
            commands += [f"{shard}publish", f"{shard}subscribe", f"{shard}unsubscribe", "ping"]
            commands.append("pubsub|shardnumsub" if self.sharded else "pubsub|numsub")
        replicas = self.options.replicas
        if replicas != "off" and replicas.mode != "off":
            commands.append("waitaof" if replicas.fsync else "wait")
            if replicas.count == "all":
                commands.append("info")
        commands += self.finding
        if "cluster|slots" in self.finding and any(kind.token for kind in kinds):
            commands.append("cluster|info")  # no token may be repeated after a failover
        others = [command for kind in self.objects for command in OTHERS.get(kind, ())]
        commands += [command for command in others if command != LIBRARY or self.library]
        return " ".join(
            (
                *("user", "app", "on", ">secret"),
                *("resetkeys", *_rules("~", keys)),
                *("resetchannels", *_rules("&", channels)),
                *("-@all", *(f"+{command}" for command in dict.fromkeys(commands))),
            )
        )

    @property
    def channels(self) -> tuple[str, ...]:
        """What an ACL calls the channels of the objects; none if they send no messages."""
        kinds = [KINDS[kind] for kind in self.objects if kind in KINDS]
        silent = self.options.pubsub == "off" or not any(kind.channel for kind in kinds)
        return () if silent else self._places()[1]

    def tenant_line(self) -> str:
        """Return the line for a user that may do everything, with the client's prefix alone.

        It is empty for a client without a prefix.
        """
        if self.options.prefix is None:
            return ""
        keys, channels = _of_tenant(self.options.prefix)
        rules = (*_rules("~", keys), *_rules("&", channels))
        return " ".join(("user app on >secret resetkeys resetchannels +@all", *rules))

    def _cards(self) -> tuple[str, ...]:
        """Return what an ACL calls the keys whose names have nothing to do with those of objects."""
        prefix = self.options.prefix or ""
        beginning = f"{{{prefix}*" if prefix else "*"
        return f"interlock_client:{beginning}", index_of(prefix), f"interlock_forced:{beginning}"

    def _places(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what an ACL calls the keys and the channels of the objects."""
        own = inner = (self.options.prefix or "") + self.names
        if "{" not in inner:  # Redisson's rule
            inner = f"{{{inner}" if inner.endswith("*") else f"{{{inner}}}"
        beside = inner if inner.endswith("*") else f"{inner}:*"
        if not inner.endswith("*"):
            inner += "*"
        ours = (f"interlock_*{inner}", f"redisson_*{inner}")
        return (own, beside, *ours), ours


def _of_tenant(prefix: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what an ACL calls all keys and channels of clients with *prefix*."""
    within = f"*{{{prefix}*"
    return (f"{prefix}*", within), (within,)


def _rules(mark: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the rules of an ACL for *patterns*, each behind *mark*: ``~locks:*``."""
    found = dict.fromkeys(patterns)
    # The server takes no pattern beside one that covers everything.
    return tuple(f"{mark}{pattern}" for pattern in (("*",) if "*" in found else found))
