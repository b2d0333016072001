"""A prefix in Python and a NameMapper in Java that does the same: the objects are shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.pair import PROMPT, Pair, counts_wake
from tests.interop.test_interop_locks import LOCKS
from tests.support.tenant import LOGIN, PREFIX, admit, refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.agent import Agent
    from tests.support.servers import RedisServer


@pytest.mark.parametrize("languages", ["java>sync", "asyncio>java"])
def test_a_tenant_shares_everything_with_java(
    need_java: None, server: RedisServer, shared_agents: Callable[[str], Agent], languages: str
) -> None:
    """With the rights of a tenant, each language excludes the other, and wakes its waiters."""
    admit([server])
    url = server.url(0, *LOGIN)
    agents = [shared_agents(which) for which in languages.split(">")]
    for agent in agents:
        if agent.language == "java":
            agent.connect(client="tenant", addresses=[url], prefix=PREFIX)
        else:
            options = {"prefix": PREFIX}
            agent.connect(client="tenant", url=url, options=options)
    for pair in (Pair(*agents, languages), Pair(*reversed(agents), f"back {languages}")):
        for kind in (*LOCKS, "group"):
            holder, waiter = pair.at(kind, client="tenant")
            assert holder.ask("acquire", lease=60)
            assert server.execute("EXISTS", f"{PREFIX}{pair.name}:{kind}") == 1
            waiting = waiter.wait(timeout=30)
            holder.ask("release")
            assert waiting.result(PROMPT).value is True
            waiter.ask("release")
        counts_wake(pair, client="tenant")
    # When it connects, Redisson tries a script with a key of its own, and does not mind a refusal.
    assert {entry["object"] for entry in refusals([server])} <= {b"test1"}
