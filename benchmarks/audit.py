"""Ask the server whether a run was what its peer says: commands as claimed, nothing left behind.

A peer that skipped the server, retried in silence or left its locks behind would otherwise be
reported with a fine figure.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import redis

# Seconds that a release may go on on a server after it has returned.
_PATIENCE = 2.0

# What a client sends itself, beside the commands of its pairs; all else comes from scripts.
_OTHERS = (
    "eval",
    "script|load",
    "subscribe",
    "unsubscribe",
    "ssubscribe",
    "sunsubscribe",
    "ping",
    "hello",
    "blpop",
)


class AuditError(Exception):
    """The server disagrees with the peer."""


class Auditor:
    """An observer of one server, which must have no other clients than the peer."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def begin(self) -> None:
        """Empty the server and its counters."""
        self._client.flushall()
        self._client.config_resetstat()

    def check(
        self,
        pairs: int,
        workers: int,
        calls: Mapping[str, int],
        leaves: tuple[str, ...] = (),
        late: float = 0.0,
    ) -> None:
        """Compare the server's counters with *pairs* pairs of *calls* each.

        Every worker may have made two pairs before, or have sent scripts that were not loaded yet.
        Renewals and their like are allowed one call in a hundred. The part *late* may be missing.

        Raises:
            AuditError: Commands are missing or too many, or keys were left behind.
        """
        check_together([self], pairs, workers, calls, late)
        self.check_empty(leaves)

    def calls(self, command: str) -> int:
        """Count how often the server has run *command*."""
        stats = self._client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    def publications(self) -> int:
        """Count the messages that were published, by clients or by scripts."""
        return self.calls("publish") + self.calls("spublish")

    def processor_time(self) -> float:
        """Return the seconds of processor time that the server has used."""
        used = self._client.info("cpu")
        return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])

    def check_empty(self, leaves: tuple[str, ...]) -> None:
        """Find no keys left behind but those that begin with one of *leaves*; errors as `check`."""
        patience = time.monotonic() + _PATIENCE
        while left := [name for name in self._keys() if not name.startswith(leaves)]:
            if time.monotonic() > patience:
                raise AuditError(f"{len(left)} keys were left behind, {left[0]} among them")
            time.sleep(0.01)

    def commands(self, pair: Iterable[str]) -> int:
        """Count what clients have sent: the commands of a *pair*, and those of waiting."""
        stats = self._client.info("commandstats")
        return sum(
            int(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"]) for name in {*pair, *_OTHERS}
        )

    def reads(self) -> int:
        """Count how often the server has read from any client: once for each round trip."""
        return int(self._client.info("stats")["total_reads_processed"])

    def _keys(self) -> list[str]:
        return [key.decode(errors="replace") for key in self._client.scan_iter(count=1000)]

    def server(self) -> dict[str, str]:
        """Return the server's name and version."""
        info = self._client.info("server")
        name = "valkey" if "valkey_version" in info else "redis"
        return {"name": name, "version": str(info[f"{name}_version"])}


def check_together(
    auditors: Sequence[Auditor],
    pairs: int,
    workers: int,
    calls: Mapping[str, int],
    late: float = 0.0,
) -> None:
    """Compare the counts of several servers together with *pairs* pairs, as `Auditor.check` does.

    Raises:
        AuditError: Commands are missing or too many.
    """
    for command, per_pair in calls.items():
        counted = sum(auditor.calls(command) for auditor in auditors)
        expected = pairs * per_pair
        if not expected * (1 - late) <= counted <= expected * 1.01 + 2 * per_pair * workers + 10:
            raise AuditError(f"{pairs} pairs, but the server counted {counted} {command}")
