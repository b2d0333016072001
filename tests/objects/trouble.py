"""A place of its own for a test that pauses servers, cuts their connections, or loses replies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tests.objects.places import Place
from tests.support.proxy import Action, FaultProxy, Matcher
from tests.support.servers import RedisServer


class TroubledPlace(Place):
    """Servers that know nothing of each other, each behind a proxy.

    Attributes:
        direct: the URLs of the servers themselves.
    """

    def __init__(self, nodes: Sequence[RedisServer], proxies: Sequence[FaultProxy]) -> None:
        super().__init__([proxy.url() for proxy in proxies], [[node] for node in nodes])
        self.direct = [node.url() for node in nodes]
        self._proxies = proxies

    def on_request(self, matcher: Matcher, action: Action) -> None:
        """Let every proxy do *action* to what is meant, of all their requests together."""
        for proxy in self._proxies:
            proxy.on_request(matcher, action)

    def fired(self) -> int:
        return sum(len(proxy.fired) for proxy in self._proxies)

    def asked_through(self) -> int:
        return sum(proxy.commands["EVALSHA"] for proxy in self._proxies)

    def lose_messages(self) -> None:
        for proxy in self._proxies:
            proxy.drop_messages = True

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        for node in self._nodes:
            node.execute("CONFIG", "SET", "maxmemory", 1)
        try:
            yield
        finally:
            for node in self._nodes:
                node.execute("CONFIG", "SET", "maxmemory", 0)

    def clear(self) -> None:
        for proxy in self._proxies:
            proxy.clear_rules()
            proxy.clear_record()

    @contextlib.contextmanager
    def paused(self, count: int | None = None) -> Iterator[None]:
        """Let all servers, or the first *count*, stand still in the block."""
        for node in self._nodes[:count]:
            node.pause()
        try:
            yield
        finally:
            for node in self._nodes[:count]:
                node.resume()

    @contextlib.contextmanager
    def unreachable(self) -> Iterator[None]:
        for proxy in self._proxies:
            proxy.stop_accepting()
            proxy.disconnect()
        try:
            yield
        finally:
            for proxy in self._proxies:
                proxy.start_accepting()


@contextlib.contextmanager
def troubled(nodes: Sequence[RedisServer]) -> Iterator[TroubledPlace]:
    with contextlib.ExitStack() as stack:
        targets = [("127.0.0.1", node.port) for node in nodes]
        proxies = [stack.enter_context(FaultProxy(target)) for target in targets]
        place = TroubledPlace(nodes, proxies)
        place.empty()
        yield place
