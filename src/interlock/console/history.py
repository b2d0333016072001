"""Remember what the console saw in the last hour, minute by minute, also in a file.

Rules:

* Everything has a bound: minutes, happenings, and locks that have minutes of their own. If there
  are more locks, those without news for the longest time go first.
* The file is written whole and then put in place. So it is never half of one, and never grows.
* A file that cannot be read is an error at the start. One that cannot be written is logged once.
* A turn is a holder that one reading shows and the one before did not. Shorter turns are not seen.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from interlock._drivers.background.log import LOGGER
from interlock.console.changes import Happening
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interlock.inspection import LockInfo

MINUTES = 60
"""Minutes that a chart shows."""
KEPT = 500
"""Happenings that are remembered."""
MOST_LOCKS = 1000
"""Locks with a chart of their own."""
WRITE_EVERY = 10.0
"""Seconds between two writings of the file."""
FORMAT = 1
"""The format number of the file."""
WHOLE = ""
"""In place of a lock's name: all of them."""


@dataclass(slots=True)
class Minute:
    """What was seen in one minute.

    Attributes:
        at: the minute, since 1970.
        turns: holders that came.
        waiting: how many waited at most.
        losses: holds that were lost.
    """

    at: int
    turns: int = 0
    waiting: int = 0
    losses: int = 0


@dataclass(frozen=True, slots=True)
class Chart:
    """The last hour of one lock, or of all.

    Attributes:
        minutes: one for each of the last `MINUTES`, the oldest first.
    """

    minutes: tuple[Minute, ...]

    @property
    def turns(self) -> int:
        """Return the number of turns."""
        return sum(each.turns for each in self.minutes)

    @property
    def waiting(self) -> int:
        """Return how many waited at most."""
        return max(each.waiting for each in self.minutes)

    @property
    def losses(self) -> int:
        """Return the number of losses."""
        return sum(each.losses for each in self.minutes)


class History:
    """Remembers happenings and minutes.

    Args:
        path: the file that keeps them; None for none.

    Raises:
        ConfigError: the file is there, and cannot be read.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._mutex = threading.Lock()
        self._happenings: deque[Happening] = deque(maxlen=KEPT)
        self._minutes: OrderedDict[str, deque[Minute]] = OrderedDict()
        self._path = path
        self._written_at = time.monotonic()
        self._failed = False
        if path is not None:
            self._read(path)

    @property
    def happenings(self) -> list[Happening]:
        """Return what has happened, the newest first."""
        with self._mutex:
            return list(self._happenings)

    def note(self, happening: Happening, *, counts: bool = True) -> None:
        """Remember *happening*; if it is a loss that *counts*, it is in the charts."""
        with self._mutex:
            self._happenings.appendleft(happening)
            if happening.loss and counts:
                self._count(happening, 1)

    def correct(self, better: dict[Happening, Happening]) -> None:
        """Put what is known now in place of what was told before."""
        with self._mutex:
            kept = [better.get(each, each) for each in self._happenings]
            self._happenings = deque(kept, maxlen=KEPT)
            for before, after in better.items():
                if before.loss != after.loss:
                    self._count(after, 1 if after.loss else -1)

    def look(self, locks: Iterable[LockInfo], turns: Sequence[str]) -> None:
        """Note who waits in a reading, and the *turns*: the lock of each holder that has come."""
        now, total = time.time(), 0
        with self._mutex:
            for info in locks:
                waiting = info.waiting_at_least
                if waiting:
                    total += waiting
                    minute = self._minute(info.name, now)
                    minute.waiting = max(minute.waiting, waiting)
            whole = self._minute(WHOLE, now)
            whole.waiting = max(whole.waiting, total)
            whole.turns += len(turns)
            for name in turns:
                self._minute(name, now).turns += 1

    def chart(self, name: str = WHOLE) -> Chart:
        """Return the last hour of the lock *name*, or of all locks."""
        last = int(time.time() // 60)
        with self._mutex:
            known = {each.at: each for each in self._minutes.get(name, ())}
        wanted = range(last - MINUTES + 1, last + 1)
        return Chart(tuple([known.get(at) or Minute(at) for at in wanted]))

    def _count(self, happening: Happening, losses: int) -> None:
        for name in {WHOLE, happening.name}:
            minute = self._minute(name, happening.at)
            minute.losses = max(minute.losses + losses, 0)

    def _minute(self, name: str, at: float) -> Minute:
        """Return the minute of a lock in which *at* lies."""
        number = int(at // 60)
        minutes = self._minutes.get(name)
        if minutes is None:
            minutes = self._minutes[name] = deque(maxlen=MINUTES)
        self._minutes.move_to_end(name)
        while len(self._minutes) > MOST_LOCKS + 1:
            oldest = next(each for each in self._minutes if each != WHOLE)
            del self._minutes[oldest]
        for each in reversed(minutes):
            if each.at == number:
                return each
        minutes.append(Minute(number))
        return minutes[-1]

    # The file.

    def write(self, *, now: bool = False) -> None:
        """Write the file if there is one and it is time to, or *now*."""
        if self._path is None or (not now and time.monotonic() - self._written_at < WRITE_EVERY):
            return
        self._written_at = time.monotonic()
        with self._mutex:
            told = self._told()
        new = self._path.with_name(f"{self._path.name}.new")
        try:
            new.write_text(json.dumps(told), encoding="utf-8")
            _ = new.replace(self._path)
            self._failed = False
        except OSError as error:
            if not self._failed:
                unkept = {"event": "console.history_unkept"}
                LOGGER.warning("the history cannot be written: %s", error, extra=unkept)
            self._failed = True

    def _told(self) -> dict[str, object]:
        """Return what the file keeps."""
        first = int(time.time() // 60) - MINUTES
        minutes = {
            name: [
                [each.at, each.turns, each.waiting, each.losses]
                for each in minutes
                if each.at > first
            ]
            for name, minutes in self._minutes.items()
        }
        happenings = [[each.at, each.name, each.what, each.loss] for each in self._happenings]
        return {"format": FORMAT, "happenings": happenings, "minutes": minutes}

    def _read(self, path: Path) -> None:
        try:
            told = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
            if told["format"] != FORMAT:
                raise ConfigError(f"{path} has format {told['format']}, and not {FORMAT}")
            self._happenings.extend(
                [
                    Happening(float(at), str(name), str(what), bool(loss))
                    for at, name, what, loss in told["happenings"][:KEPT]
                ]
            )
            for name, minutes in told["minutes"].items():
                rows = [Minute(*map(int, each)) for each in minutes[-MINUTES:]]
                self._minutes[name] = deque(rows, maxlen=MINUTES)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path} is no history of a console: {error}") from error
