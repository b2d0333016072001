"""What a check is to be about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from interlock.check.rights import (
    COUNTING,
    LIBRARY,
    NAME,
    SCRIPTS,
    commands_of,
    for_queue,
    objects,
    operations,
    rules,
)
from interlock.errors import ConfigError
from interlock.inspection.kinds import seen
from interlock.options import Options, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.inspection.kinds import KeyPattern

_PATTERN = re.compile(r"[^*?\[\]\\\s]*\*?")


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
        unknown = [kind for kind in self.objects if kind not in known | operations()]
        if unknown or not self.objects:
            raise ConfigError(f"wanted objects of {', '.join(known)}, found {unknown or 'none'}")
        object.__setattr__(self, "names", check_name(self.names))
        if not _PATTERN.fullmatch(self.names):
            raise ConfigError(
                "names must be a name, or the beginning of names and *, such as 'locks:*', "
                f"not {self.names!r}"
            )

    @property
    def name_pattern(self) -> str:
        """Return *names* as the server sees them."""
        mapper = self.options.name_mapper
        return self.names if mapper is None else check_name(mapper(self.names))

    def acl_line(self) -> str:
        """Return the line of an ACL file that permits that to a user, and nothing more."""
        known = objects() | operations()
        chosen = [known[kind] for kind in self.objects]
        places = [place for kind in chosen for place in kind.keys]
        if any(kind.named for kind in chosen):
            places.insert(0, NAME)
        called = frozenset[str]().union(*map(commands_of, chosen))
        channels: list[KeyPattern] = []
        queues: list[KeyPattern] = []
        if self.options.pubsub != "off":
            channels = [place for kind in chosen for place in kind.channels]
            queues = [kind.queue for kind in chosen if kind.queue is not None]
        if queues:
            called = called.union(*map(for_queue, chosen))
        others = [
            word for kind in chosen for word in kind.others if word != LIBRARY or self.library
        ]
        commands = dict.fromkeys(
            (
                *(*SCRIPTS, *sorted(called), *self._messages(channels, queues)),
                *(*self._confirming(), *self.finding, *self._counting(), *others),
            )
        )
        pattern = self.name_pattern
        return " ".join(
            (
                *("user", "app", "on", ">secret"),
                *("resetkeys", *rules("~", (*places, *queues), pattern)),
                *("resetchannels", *rules("&", channels, pattern)),
                *("-@all", *(f"+{command}" for command in commands)),
            )
        )

    def _messages(self, channels: Sequence[KeyPattern], queues: Sequence[KeyPattern]) -> list[str]:
        """Return the commands for announcing and hearing; none where nothing is announced."""
        if not channels:
            return []
        prefix = "s" if self.sharded else ""
        words = [f"{prefix}{command}" for command in ("publish", "subscribe", "unsubscribe")]
        words.append("ping")
        if queues:
            words.append("pubsub|shardnumsub" if self.sharded else "pubsub|numsub")
        return words

    def _counting(self) -> tuple[str, ...]:
        """Return what kinds with tokens need in a cluster."""
        counted = {name for name, sight in seen().items() if sight.token is not None}
        counting = "cluster|slots" in self.finding and not counted.isdisjoint(self.objects)
        return (COUNTING,) if counting else ()

    def _confirming(self) -> tuple[str, ...]:
        """Return the commands by which replicas are asked."""
        policy = self.options.replicas
        if policy == "off" or policy.mode == "off":
            return ()
        asking = "waitaof" if policy.fsync else "wait"
        return (asking, "info") if policy.count == "all" else (asking,)

    def reaching(self, finding: Iterable[str], *, sharded: bool) -> Self:
        """Return the same for the servers that the commands *finding* lead to.

        Args:
            finding: commands that it takes to find them; they join those of `finding`.
            sharded: whether messages go by sharded channels there.
        """
        return replace(
            self, finding=tuple(dict.fromkeys((*self.finding, *finding))), sharded=sharded
        )
