"""Fixtures for the tests of observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.patience import wait_until
from tests.support.renewal import renews_soon

import interlock
from interlock import observe

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

    from interlock import Client


class Recorder(observe.Observer):
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[observe.Event] = []
        self.clients: list[observe.ClientView] = []

    def attached(self, client: observe.ClientView) -> None:
        self.clients.append(client)

    def detached(self, client: observe.ClientView) -> None:
        self.clients.remove(client)

    def of(self, kind: type[observe.Event]) -> list[observe.Event]:
        return [event for event in self.events if type(event) is kind]

    def keep(self, event: observe.Event) -> None:
        self.events.append(event)

    acquired = released = waiting = gave_up = lost = abandoned = keep  # type: ignore[assignment]
    force_released = slow_acquire = slow_hold = renewed = keep  # type: ignore[assignment]
    renewal_failed = recovered = server_changed = overflowed = keep  # type: ignore[assignment]


def records(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if vars(record).get("event") == event]


def logged(caplog: pytest.LogCaptureFixture, event: str) -> logging.LogRecord:
    wait_until(lambda: bool(records(caplog, event)), 5, f"{event} is logged")
    (record,) = records(caplog, event)
    assert record.name == "interlock"
    return record


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    with interlock.connect(redis_url, slow_acquire=0.2, slow_hold=0.2) as client:
        yield renews_soon(client)
