# Generated from interlock/asyncio/event.py by tools/make_sync.py; change that file.
"""The event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._hints import hints
from interlock._traceback import outermost
from interlock.options import check_timeout

if TYPE_CHECKING:
    from interlock._core.objects.event import Event as CoreEvent
    from interlock._drivers.threads import ThreadDriver
    from interlock.options import Duration


@hints("client.event(name)")
class Event:
    """A flag that all processes share, as `threading.Event`; made by `Client.event`.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_core", "_driver", "name")

    def __init__(self, driver: ThreadDriver, core: CoreEvent) -> None:
        self._driver = driver
        self._core = core
        self.name = core.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def set(self) -> None:
        """Set it, and wake every waiter of every process; one round trip.

        It stays set until somebody clears it. A call that is interrupted is completed, and still
        sent in the background after a ServerUnavailableError.
        """
        self._driver.perform(self._core.set())

    def clear(self) -> None:
        """Clear it: who comes now waits. Raises and costs as `set`.

        A waiter that waited before still goes on if the event was set meanwhile.
        """
        self._driver.perform(self._core.clear())

    def is_set(self) -> bool:
        """Return whether it is set; one round trip."""
        return self._driver.run(self._core.is_set())

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until it is set; at once if it is.

        Returns:
            Whether it was set within *timeout* seconds.

        Cost:
            One round trip when it is set. While waiting, one per message, and one each 2 s, for all
            waiters of this client.
        """
        limit, driver = check_timeout(blocking=True, timeout=timeout), self._driver
        with outermost:
            return driver.perform(self._core.wait(driver.session.clock() + limit))
