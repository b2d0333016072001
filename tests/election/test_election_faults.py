"""Leaders that are killed, frozen and cut off: terms never overlap at a resource."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.lock.children import Child
from tests.support.proxy import FaultProxy
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

LEASE = 2.0
SOON = 10.0
"""Seconds after the end of a lease within which another candidate leads on a busy machine.

The simulator tells the promised second: tests/core/test_elections_simulated.py.
"""
CANDIDATE = """
    import redis
    resource = redis.Redis.from_url(RESOURCE)
    write = resource.register_script(\'\'\'
        if tonumber(ARGV[1]) < tonumber(redis.call('get', KEYS[1]) or 0) then return 0 end
        redis.call('set', KEYS[1], ARGV[1])
        redis.call('rpush', KEYS[2], ARGV[1] .. ' ' .. ARGV[2])
        return 1
    \'\'\')
    def lead(term):
        while not term.lost.is_set():
            term.ensure()
            if not write(["{r}:fence", "{r}:log"], [term.token, os.getpid()]):
                resource.incr("{r}:refused")
            time.sleep(0.005)  # a leader writes in real time
    say("ready")
    while True:
        try:
            with interlock.connect(url, lease=2, command_timeout=0.5) as client:
                client.election("name").run(lead)
        except interlock.InterlockError:
            time.sleep(0.1)  # the server is away
"""


def test_terms_never_overlap(server: RedisServer, redis_client: redis.Redis) -> None:
    """Another candidate leads soon after the lease, and no older token writes after a newer one."""
    with ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(("127.0.0.1", server.port))) for _ in range(4)]
        code = CANDIDATE.replace("RESOURCE", repr(server.url())).replace("\\'", "'")
        children = [stack.enter_context(Child(code, proxy.url())) for proxy in proxies]
        assert [child.hear() for child in children] == ["ready"] * 4
        client = stack.enter_context(interlock.connect(server.url()))
        election = client.election("name")

        def leading(but: int | None = None) -> int | None:
            info = election.leader()
            return info.pid if info and info.pid != but else None

        def successor(pid: int) -> float:
            """Return after which time another one leads."""
            began = time.monotonic()
            wait_until(lambda: leading(pid), 20, "another one leads")
            return time.monotonic() - began

        by_pid = {child.pid: number for number, child in enumerate(children)}
        gaps = {}
        for fault in ("freeze", "cut", "kill"):
            wait_until(leading, 20, "somebody leads")
            pid = leading()
            assert pid is not None
            number = by_pid[pid]
            written = redis_client.llen("{r}:log")
            wait_until(lambda n=written: redis_client.llen("{r}:log") > n + 5, 20, "it writes")
            if fault == "freeze":
                children[number].signal(signal.SIGSTOP)
            elif fault == "cut":
                proxies[number].stop_accepting()
                proxies[number].disconnect()
            else:
                children[number].kill()
            gaps[fault] = successor(pid)
            if fault == "freeze":
                children[number].signal(signal.SIGCONT)
            elif fault == "cut":
                proxies[number].start_accepting()
        wait_until(leading, 20, "somebody leads")
        lines = [line.decode().split() for line in redis_client.lrange("{r}:log", 0, -1)]
    tokens = [int(token) for token, _ in lines]
    assert tokens == sorted(tokens)
    assert len({token for token, _ in lines}) == len({(token, pid) for token, pid in lines})
    assert len(set(tokens)) >= 3
    assert max(gaps.values()) <= LEASE + SOON, gaps
