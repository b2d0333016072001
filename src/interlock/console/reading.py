"""What is read from the servers for a page, once for all who look at it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock._drivers.background.log import LOGGER
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
OLD = 30.0
"""Seconds after which an answer is not shown any more, unless no newer one can be read."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What is known so far.

    Attributes:
        value: the newest that could be read; None before the first.
        at: when that was, as `time.time` tells it.
        error: why the last attempt failed; empty if it did not.
    """

    value: T | None = None
    at: float = 0.0
    error: str = ""


class Reading(Generic[T]):
    """Reads when somebody asks, unless the last answer is still fresh.

    However many ask, one reading runs at a time. It never takes more than half of the time: what
    took long to read stays fresh for as long.

    Args:
        read: returns what is to be known.
        fresh: seconds for which an answer is good, at least.
    """

    def __init__(self, read: Callable[[], T], fresh: float) -> None:
        self._read = read
        self._fresh = fresh
        self._lock = threading.Lock()
        self._answer: Answer[T] = Answer()
        self._stale_at = 0.0
        self._done = threading.Event()
        self._done.set()

    def answer(self, patience: float) -> Answer[T]:
        """Return the newest answer, after at most *patience* seconds of waiting for a fresh one."""
        with self._lock:
            if self._done.is_set() and time.monotonic() >= self._stale_at:
                self._done = threading.Event()
                # A daemon: a slow server must not keep the console from ending.
                threading.Thread(target=self._run, name="interlock console", daemon=True).start()
            done = self._done
        _ = done.wait(patience)
        answer = self._answer
        return answer if answer.error or time.time() - answer.at < OLD else Answer()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            answer = Answer(self._read(), time.time())
        except InterlockError as error:
            answer = replace(self._answer, error=str(error))
        except Exception as error:  # noqa: BLE001 - the page says it, and must not wait for ever
            answer = replace(self._answer, error=f"{type(error).__name__}: {error}")
            if answer.error != self._answer.error:
                event = {"event": "console.failed"}
                LOGGER.exception("the console cannot read the locks", extra=event)
        now = time.monotonic()
        self._answer = answer
        self._stale_at = now + max(self._fresh, now - began)
        self._done.set()
