"""What the judge asks about an object that is no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.model.redis_model import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.core.simulator import Simulator

    from interlock._core.model.effects import Eval
    from interlock._core.model.hold import Hold


class Dump(dict[str, Stored]):
    """What the server has, by key: the same object until that changes.

    Attributes:
        holders: who holds each lock, as far as somebody has asked.
        members: who waits for it.
        checked: the holds that it was found to have, by their ids.
    """

    def __init__(self, stored: dict[str, Stored] | None = None) -> None:
        super().__init__(stored or {})
        self.holders: dict[str, list[str]] = {}
        self.members: dict[str, dict[str, float]] = {}
        self.checked = set[str]()


class Watcher:
    """Watches one object of *world*, whose judge asks it; this one watches nothing.

    Attributes:
        lasting: those of its keys that need no TTL.
    """

    lasting: Collection[str] = ()

    def __init__(self, world: Simulator) -> None:
        self.world = world

    def ran(self, call: Eval[object], before: Dump, after: Dump) -> None:
        """Look at what *call* did."""

    def after_step(self, dump: Dump) -> None:
        """Look at everything."""

    def left(self, hold: Hold, dump: Dump) -> float | None:
        """Return the seconds that are left of *hold* on the server; None if that does not have it."""
        raise NotImplementedError

    def remember(self) -> Callable[[], None]:
        """Return what makes all here as it is now, because the server goes on with what it has now."""
        return lambda: None

    def lost(self) -> None:
        """Note that the server has lost something."""

    def at_rest(self, dump: Dump) -> None:
        """Look whether anything is left that should not be."""


def zset(dump: Dump, key: str) -> dict[bytes, float]:
    value: Any = dump[key].value if key in dump else {}
    return dict(value)
