"""What a check is to be about, and what a user must be permitted for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.check.rights import LIBRARY, commands_of, objects, operations
from interlock.errors import ConfigError
from interlock.inspection.kinds import KeyPattern, seen
from interlock.options import Options, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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

        keys = [KeyPattern(str)] if any(kind.named for kind in chosen) else []
        keys += [key for kind in chosen for key in kind.keys]
        channels: list[KeyPattern] = []
        queues: list[KeyPattern] = []
        if self.options.pubsub != "off":  # nobody queues who cannot be told
            channels = [channel for kind in chosen for channel in kind.channels]
            queues = [kind.queue for kind in chosen if kind.queue is not None]

        called = (
            commands_of(kind, queue=bool(queues) and kind.queue is not None) for kind in chosen
        )
        commands = ["evalsha", "eval", *sorted(frozenset[str]().union(*called))]
        shard = "s" if self.sharded else ""
        if channels:
            commands += [f"{shard}publish", f"{shard}subscribe", f"{shard}unsubscribe", "ping"]
        if queues:
            commands.append("pubsub|shardnumsub" if self.sharded else "pubsub|numsub")
        replicas = self.options.replicas
        if replicas != "off" and replicas.mode != "off":
            commands.append("waitaof" if replicas.fsync else "wait")
            if replicas.count == "all":
                commands.append("info")
        commands += self.finding
        tokens = {name for name, sight in seen().items() if sight.token is not None}
        if "cluster|slots" in self.finding and not tokens.isdisjoint(self.objects):
            commands.append("cluster|info")  # no token may be repeated after a failover
        others = [command for kind in chosen for command in kind.others]
        commands += [command for command in others if command != LIBRARY or self.library]

        return " ".join(
            (
                *("user", "app", "on", ">secret"),
                *("resetkeys", *self._rules("~", (*keys, *queues))),
                *("resetchannels", *self._rules("&", channels)),
                *("-@all", *(f"+{command}" for command in dict.fromkeys(commands))),
            )
        )

    def _rules(self, mark: str, places: Iterable[KeyPattern]) -> tuple[str, ...]:
        """Return what an ACL calls *places*, each behind *mark*: ``~locks:*``."""
        patterns = dict.fromkeys(place.pattern(self.name_pattern) for place in places)
        # The server takes no pattern beside one that covers everything.
        return tuple(f"{mark}{pattern}" for pattern in (("*",) if "*" in patterns else patterns))
