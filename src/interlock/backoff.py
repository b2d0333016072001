"""How long a spin lock pauses between two tries."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Backoff(Protocol):
    """The pauses of a spin lock."""

    def pauses(self, random: Callable[[], float]) -> Iterator[float]:
        """Return the pauses in seconds; should they end, the last goes on.

        Args:
            random: gives numbers from 0 to 1.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Pauses that grow, with some chance in them so that those who wait do not meet.

    Attributes:
        initial: seconds, the first pause.
        cap: seconds, the longest.
        factor: by which each pause is longer than the one before.

    Source:
        RedissonSpinLock's ExponentialBackOff (1 ms, x 2, 128 ms).
    """

    initial: float = 0.001
    cap: float = 0.128
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.initial <= self.cap < math.inf:
            raise ConfigError(f"initial and cap must be seconds, 0 < initial <= cap, not {self}")
        if not 1 <= self.factor < math.inf:
            raise ConfigError(f"factor must be at least 1, not {self.factor!r}")

    def pauses(self, random: Callable[[], float]) -> Iterator[float]:
        """Return the pauses in seconds, without end."""
        pause = self.initial
        for tries in itertools.count(1):
            yield pause
            pause = min(self.cap, pause * self.factor + random() * tries / 1000)


@dataclass(frozen=True, slots=True)
class ConstantBackoff:
    """Pauses that are all the same.

    Attributes:
        pause: seconds.

    Source:
        RedissonSpinLock's ConstantBackOff (64 ms).
    """

    pause: float = 0.064

    def __post_init__(self) -> None:
        if not 0 < self.pause < math.inf:
            raise ConfigError(f"pause must be seconds above 0, not {self.pause!r}")

    def pauses(self, random: Callable[[], float]) -> Iterator[float]:
        """Return the pauses in seconds, without end."""
        del random
        return itertools.repeat(self.pause)
