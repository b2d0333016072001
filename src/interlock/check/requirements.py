"""What a check is to be about."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Self

from interlock._core.kinds import seen
from interlock.check.rights import (
    COUNTING,
    Rights,
    acl_line,
    objects,
    operations,
    rights,
    rules,
)
from interlock.errors import ConfigError
from interlock.options import Options, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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

    def examples(self) -> Iterator[str]:
        """Yield names that are covered and that nobody uses, without end.

        The name itself where there is but one.
        """
        if "*" not in self.name_pattern:
            yield self.name_pattern
            return
        while True:
            yield self.name_pattern.replace("*", f"interlock-check-{uuid.uuid4()}")

    @property
    def rights(self) -> Rights:
        """Return what the user must be permitted."""
        counted = {name for name, sight in seen().items() if sight.token is not None}
        counting = "cluster|slots" in self.finding and not counted.isdisjoint(self.objects)
        others = (*self._confirming(), *self.finding, *((COUNTING,) if counting else ()))
        telling = self.options.pubsub != "off"
        return rights(
            self.objects,
            dict.fromkeys(others),
            telling=telling,
            sharded=self.sharded,
            library=self.library,
        )

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

    def rules(self) -> frozenset[str]:
        """Return the rules of `acl_line`, also those that others of them cover."""
        needed = self.rights
        keys = [rules("~", [place], self.name_pattern) for place in needed.keys]
        channels = [rules("&", [place], self.name_pattern) for place in needed.channels]
        commands = [f"+{command}" for command in needed.commands]
        return frozenset((*chain.from_iterable((*keys, *channels)), *commands))

    def acl_line(self) -> str:
        """Return the line of an ACL file that permits that and nothing more."""
        return acl_line(self.rights, self.name_pattern)
