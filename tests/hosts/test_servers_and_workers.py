"""Locks in gunicorn with --preload, `uvicorn --reload` and Dramatiq, each a real one."""

from __future__ import annotations

import json
import time
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.support.address import free_port
from tests.support.patience import wait_until

if TYPE_CHECKING:
    import redis
    from tests.hosts.host_process import Hosts

SOON = 30.0
CALLS = 40
PRELOADED = """
import json, os, redis, interlock

client = interlock.connect(os.environ["INTERLOCK_URL"])
store = redis.Redis.from_url(os.environ["INTERLOCK_URL"])
HOLD = client.lock("of the master")
HOLD.acquire()
MASTER = os.getpid()


def app(environ, start_response):
    with client.lock("count") as hold:
        seen = int(store.get("n") or 0)
        store.set("n", seen + 1)
        told = {"pid": os.getpid(), "master": MASTER, "holder": hold.holder}
        told["held"] = HOLD.hold is not None
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(told).encode()]
"""


def ask(port: int) -> Any:
    """Return the answer of the server at *port*; None if it does not serve."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=SOON) as answer:
            return json.load(answer)
    except OSError:
        return None


def test_gunicorn_with_preload(hosts: Hosts, redis_client: redis.Redis) -> None:
    """Each worker is a client of its own, and no worker has what the master holds."""
    port = free_port()
    (hosts.directory / "preloaded.py").write_text(PRELOADED)
    hosts.start("gunicorn", "preloaded:app", "--preload", "-w", "2", "-b", f"127.0.0.1:{port}")
    wait_until(lambda: ask(port) is not None, SOON, "gunicorn serves")
    before = int(redis_client.get("n") or 0)
    answers = [ask(port) for _ in range(CALLS)]
    assert int(redis_client.get("n") or 0) == before + CALLS
    masters = {holder.decode().partition(":")[0] for holder in redis_client.hkeys("of the master")}
    assert len(masters) == 1
    clients = {answer["pid"]: answer["holder"].partition(":")[0] for answer in answers}
    assert not any(answer["held"] or answer["pid"] == answer["master"] for answer in answers)
    assert len({*clients.values(), *masters}) == len(clients) + 1


RELOADED = """
import json, os, interlock

VERSION = 1
client = interlock.connect(os.environ["INTERLOCK_URL"], lease=3)
lock = client.lock("only one")
lock.acquire()
HOLD = lock.hold


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    told = json.dumps({"version": VERSION, "pid": os.getpid(), "held": HOLD.valid}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": told})
"""


def test_uvicorn_reload(hosts: Hosts) -> None:
    """A lock of a process that a reload ends is free after its lease at the latest."""
    port = free_port()
    program = hosts.directory / "reloaded.py"
    program.write_text(RELOADED)
    hosts.start("uvicorn", "reloaded:app", "--reload", "--port", str(port))
    wait_until(lambda: ask(port) is not None, SOON, "uvicorn serves")
    first = ask(port)
    assert first["version"] == 1
    program.write_text(RELOADED.replace("VERSION = 1", "VERSION = 22"))
    touched = time.monotonic()

    def reloaded() -> bool:
        # What is written before uvicorn looks at the file for the first time is no change for it.
        nonlocal touched
        if time.monotonic() > touched + SOON / 4:
            program.touch()
            touched = time.monotonic()
        return (ask(port) or first)["version"] == 22

    wait_until(reloaded, SOON, "the program was reloaded")
    second = ask(port)
    assert second["pid"] != first["pid"]
    assert first["held"]
    assert second["held"]


ACTORS = """
import os, dramatiq, redis, interlock
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["INTERLOCK_URL"]))
client = interlock.connect(os.environ["INTERLOCK_URL"])
store = redis.Redis.from_url(os.environ["INTERLOCK_URL"])


@dramatiq.actor
def count():
    with client.lock("count"):
        seen = int(store.get("n") or 0)
        store.set("n", seen + 1)
        store.incr("done")


if __name__ == "__main__":
    for _ in range(40):
        count.send()
    client.close()
"""


def test_dramatiq(hosts: Hosts, redis_client: redis.Redis) -> None:
    """Two processes of two threads each count without a loss."""
    (hosts.directory / "actors.py").write_text(ACTORS)
    hosts.start("dramatiq", "actors", "--processes", "2", "--threads", "2", "--path", ".")
    hosts.start("actors")
    wait_until(lambda: int(redis_client.get("done") or 0) >= CALLS, SOON, "all actors have run")
    assert int(redis_client.get("n") or 0) == int(redis_client.get("done") or 0)
    wait_until(lambda: not redis_client.exists("count"), SOON, "the lock is free")
