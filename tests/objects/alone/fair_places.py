"""A fair lock as it is on the wire: its scripts one by one, what they store and whom they tell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import redis

from interlock._core.model.effects import Eval
from interlock._core.scripts import fair_lock as scripts
from interlock._core.scripts.locks import ACQUIRE, Grant, milliseconds

LOCK = "orders"
QUEUE = "redisson_lock_queue:{orders}"
TIMEOUTS = "redisson_lock_timeout:{orders}"
CHANNEL = "redisson_lock__channel:{orders}"
KEYS = (LOCK, QUEUE, TIMEOUTS)


class Places:
    """The fair lock ``orders`` on the server of *redis_client*; holders are any words.

    Args:
        redis_client: runs the scripts.
        wait: seconds for which a waiter may be silent.
    """

    def __init__(self, redis_client: redis.Redis, wait: float = 5.0) -> None:
        self.redis = redis_client
        self.wait = wait

    def acquire(
        self,
        holder: str,
        *,
        depth: int = 1,
        lease: float = 30.0,
        enqueue: bool = True,
        wait: float | None = None,
    ) -> Grant | float:
        """Ask for the lock; a grant, or within how many seconds to ask again."""
        if depth > 1:
            return self._run(Eval(ACQUIRE, (LOCK,), (milliseconds(lease), holder, depth)))
        args = (milliseconds(lease), holder, int(enqueue), milliseconds(wait or self.wait), CHANNEL)
        return self._run(Eval(scripts.FAIR_ASK["PUBLISH"], KEYS, args))

    def has(self, holder: str, **options: Any) -> bool:
        """Ask for the lock; return whether *holder* has it now."""
        return isinstance(self.acquire(holder, **options), Grant)

    def release(self, holder: str, depth: int = 0, *, wait: float | None = None) -> bool:
        """Go down to *depth*, or leave the queue; return whether *holder* was there."""
        args = (holder, depth, milliseconds(wait or self.wait), CHANNEL)
        call = Eval(scripts.FAIR_RELEASE["PUBLISH"], KEYS, args)
        return self._run(call) is not None

    def force_release(self) -> bool:
        """Free the lock, no matter which owner holds it."""
        freed = [self.release(each) for each in self.holders]
        return any(freed)

    @property
    def holders(self) -> dict[str, int]:
        """The hash."""
        return {k.decode(): int(v) for k, v in self.redis.hgetall(LOCK).items()}

    @property
    def waiting(self) -> list[str]:
        """The list."""
        return [holder.decode() for holder in self.redis.lrange(QUEUE, 0, -1)]

    @property
    def left(self) -> dict[str, float]:
        """Seconds until the deadline of each, by the server's clock."""
        with self.redis.pipeline(transaction=True) as both:  # nothing happens in between
            (seconds, micros), scores = (
                both.time().zrange(TIMEOUTS, 0, -1, withscores=True).execute()
            )
        now = seconds + micros / 1e6
        return {holder.decode(): score / 1000 - now for holder, score in scores}

    @property
    def leaving(self) -> str:
        """What asks for a release or gives up a place: the script's name on the server."""
        return scripts.FAIR_RELEASE["PUBLISH"].sha

    @property
    def now(self) -> float:
        """The server's clock."""
        seconds, micros = self.redis.time()
        return seconds + micros / 1e6

    def set_left(self, **seconds: float) -> None:
        """Make deadlines *seconds* from now."""
        now = self.now
        self.redis.zadd(TIMEOUTS, {holder: int((now + s) * 1000) for holder, s in seconds.items()})

    @contextlib.contextmanager
    def told(self) -> Iterator[list[tuple[str, str]]]:
        """Give a list that has, at the end, all messages that were sent: to whom, and what."""
        messages: list[tuple[str, str]] = []
        with self.redis.pubsub() as subscriber:
            subscriber.psubscribe("*")
            assert subscriber.get_message(timeout=5)["type"] == "psubscribe"
            yield messages
            self.redis.publish("the end", "")
            while (message := subscriber.get_message(timeout=5))["channel"] != b"the end":
                channel, data = message["channel"].decode(), message["data"].decode()
                assert channel.startswith(f"{CHANNEL}:")
                messages.append((channel.removeprefix(f"{CHANNEL}:"), data))

    def _run(self, call: Eval[Any]) -> Any:
        reply = self.redis.eval(call.script.text, len(call.keys), *call.keys, *call.args)
        return call.script.decode(reply)
