"""The agent in Python, the twin of the one in Java (`interop.agent`).

Run ``python peer.py sync`` or ``python peer.py asyncio``. Durations are seconds, and times are
those of `time.monotonic`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import queue
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Command = dict[str, Any]
_JOINT = {"multi": "multi_lock", "red": "red_lock"}
_FACTORIES = {
    "lock": "lock",
    "fair": "fair_lock",
    "fenced": "fenced_lock",
    "spin": "spin_lock",
    "semaphore": "semaphore",
    "leased_semaphore": "leased_semaphore",
    "latch": "count_down_latch",
}
_LOCK_LIKE = {"lock", "non_reentrant", "fair", "read", "write", "fenced", "spin", "group", *_JOINT}


class Peer:
    """The clients by name, and the objects that commands speak of."""

    def __init__(self, face: str) -> None:
        self._sleep = time.sleep if face == "sync" else asyncio.sleep
        self._face = importlib.import_module({"sync": "interlock"}.get(face, f"interlock.{face}"))
        self._clients: dict[str, Any] = {}
        self._objects: dict[str, Any] = {}
        self._permits: dict[str, Any] = {}

    async def perform(self, command: Command) -> Any:
        """Do what *command* says; nothing in here suspends with the face for threads."""
        match command["do"]:
            case "sleep":
                return await settled(self._sleep(command["seconds"]))
            case "connect":
                options = command.get("options", {})
                client = self._face.connect(command["url"], **options)
                self._clients[command.get("client", "main")] = client
                return client.client_id
            case "close":
                return await settled(self._clients.pop(command["client"]).close())
        kind, made = command["kind"], self._object(command)
        if kind in _LOCK_LIKE:
            return await self._lock(made, command)
        if kind == "leased_semaphore":
            return await self._leased(made, command)
        return await self._counted(made, command)

    def _object(self, of: Command) -> Any:
        """Return one object for the same words, like a program that keeps its locks in fields."""
        words = json.dumps(
            [of.get(part) for part in ("client", "kind", "name", "members", "values")]
        )
        if words not in self._objects:
            self._objects[words] = self._make(of)
        return self._objects[words]

    def _make(self, of: Command) -> Any:
        client, kind, name = self._clients[of.get("client", "main")], of["kind"], of.get("name")
        if kind in _JOINT:
            return getattr(client, _JOINT[kind])(*map(self._object, of["members"]))
        if kind in ("read", "write"):
            return getattr(client.read_write_lock(name), kind)
        if kind == "non_reentrant":
            return client.lock(name, reentrant=False)
        if kind == "group":
            return client.group_lock(name, of["values"])
        return getattr(client, _FACTORIES[kind])(name)

    async def _lock(self, lock: Any, command: Command) -> Any:
        match command["do"]:
            case "acquire":
                return await settled(
                    lock.acquire(timeout=command.get("timeout"), lease=command.get("lease"))
                )
            case "acquire_token":
                got = await settled(
                    lock.acquire(timeout=command.get("timeout"), lease=command.get("lease"))
                )
                return lock.hold.token if got else None
            case "query":
                return {
                    "locked": await settled(lock.locked()),
                    "owned": await settled(lock.owned()),
                    "depth": await settled(lock.hold_count()),
                    "remaining": await settled(lock.remaining()),
                }
            case "watch":  # start to look after the hold, for `lost`
                self._permits[command["name"]] = lock.hold
                return None
            case "lost":
                hold = self._permits[command["name"]]
                wait = hold.lost.wait
                if inspect.iscoroutinefunction(wait):
                    async with asyncio.timeout(command["timeout"]):
                        await wait()
                else:
                    await settled(wait(command["timeout"]))
                return hold.lost.is_set()
            case "release" | "force_release" | "locked" as do:
                return await settled(getattr(lock, do)())
            case do:
                raise ValueError(f"a lock cannot {do}")

    async def _counted(self, made: Any, command: Command) -> Any:
        method = getattr(made, command["do"])
        arguments = {
            "n": command.get("n"),
            "count": command.get("n"),
            "timeout": command.get("timeout"),
        }
        known = inspect.signature(method).parameters
        chosen = {
            key: value
            for key, value in arguments.items()
            if key in known and not (value is None and key != "timeout")
        }
        return await settled(method(**chosen))

    async def _leased(self, semaphore: Any, command: Command) -> Any:
        match command["do"]:
            case "acquire":
                asked = {key: command.get(key) for key in ("timeout", "lease")}
                permit = await settled(semaphore.try_acquire(command.get("n", 1), **asked))
                if permit is None:
                    return None
                self._permits.update(dict.fromkeys(permit.ids, permit))
                return list(permit.ids)
            case "release":
                for permit in dict.fromkeys(self._permits.pop(i, i) for i in command["ids"]):
                    await settled(semaphore.release(permit))
                return None
            case "update_lease":
                (ident,) = command["ids"]
                return await settled(
                    semaphore.extend(self._permits.get(ident, ident), command["lease"])
                )
            case _:
                return await self._counted(semaphore, command)


async def settled(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def answer(peer: Peer, command: Command, owner: int) -> None:
    reply: dict[str, Any] = {"id": command["id"], "owner": owner, "started": time.monotonic()}
    try:
        reply["value"] = await peer.perform(command)
    except (InterlockError, TimeoutError, TypeError, ValueError, AttributeError, KeyError) as error:
        reply |= {"error": type(error).__name__, "message": str(error)}
    reply["ended"] = time.monotonic()
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def in_threads(peer: Peer) -> None:
    """Serve with one thread for each name."""
    from interlock._drivers.threads import current_owner

    def drive(operation: Coroutine[Any, Any, None]) -> None:
        try:
            operation.send(None)
        except StopIteration:
            return
        raise RuntimeError("the face for threads suspended")

    def serve(work: queue.SimpleQueue[Command]) -> None:
        while True:
            drive(answer(peer, work.get(), current_owner().identity))

    def lane(name: str) -> Callable[[Command], None]:
        work: queue.SimpleQueue[Command] = queue.SimpleQueue()
        threading.Thread(target=serve, args=(work,), name=name, daemon=True).start()
        return work.put

    lanes: dict[str, Callable[[Command], None]] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if command["thread"] not in lanes:
            lanes[command["thread"]] = lane(command["thread"])
        lanes[command["thread"]](command)


async def in_tasks(peer: Peer) -> None:
    """Serve with one task for each name."""
    from interlock._drivers.tasks import current_owner

    async def serve(work: asyncio.Queue[Command]) -> None:
        while True:
            await answer(peer, await work.get(), current_owner().identity)

    lanes: dict[str, asyncio.Queue[Command]] = {}
    tasks: list[asyncio.Task[None]] = []
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if command["thread"] not in lanes:
            lanes[command["thread"]] = asyncio.Queue()
            tasks.append(asyncio.create_task(serve(lanes[command["thread"]])))
        lanes[command["thread"]].put_nowait(command)


def main(face: str) -> None:
    """Serve until the input ends, and end then at once: whatever still waits is not waited for."""
    peer = Peer(face)
    if face == "sync":
        in_threads(peer)
    else:
        asyncio.run(in_tasks(peer))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
