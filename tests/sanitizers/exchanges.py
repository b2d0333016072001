"""Exchanges over a socket pair, by the part in C.

`python -m tests.sanitizers` runs this under the sanitizers. Arguments: the compiled module, how
many exchanges, and the seed. It exits with 1 at the first reply that is not what was sent.
"""

from __future__ import annotations

import fcntl
import importlib.machinery
import importlib.util
import os
import random
import resource
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

FROM = 500
"""The first descriptor whose system calls go wrong."""
SECONDS = 20.0
LONGEST = 60_000


class StruckError(Exception):
    """What the signal raises."""


def load(path: str) -> Any:
    loader = importlib.machinery.ExtensionFileLoader("_exchange", path)
    spec = importlib.util.spec_from_file_location("_exchange", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def pair() -> tuple[socket.socket, int]:
    """Return a socket with a descriptor that faults reach, and the descriptor of its peer."""
    ours, theirs = socket.socketpair()
    high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, FROM)
    ours.close()
    sock = socket.socket(fileno=high)
    value = int(SECONDS).to_bytes(8, sys.byteorder) + bytes(8)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, value)
    return sock, theirs.detach()


def echo(peer: int, rest: random.Random) -> None:
    """Send back what comes, in pieces; by read and write, which have no faults."""
    while data := os.read(peer, rest.randint(1, LONGEST)):
        while data:
            data = data[os.write(peer, data[: rest.randint(1, LONGEST)]) :]
    os.close(peer)


def asked(module: Any, sock: socket.socket, data: bytes) -> bytes:
    """Send *data* and return as much of the reply, or what it says if it is one of the shortest."""
    first = module.ask(sock.fileno, data, SECONDS)
    if not isinstance(first, bytes):
        return written(first)
    assert first, "the end"
    left = len(data) - len(first)
    parts = [first]
    while left:
        parts.append(module.ask(sock.fileno, b"", SECONDS))
        assert parts[-1], "the end"
        left -= len(parts[-1])
    return b"".join(parts)


def written(data: object) -> bytes:
    if data is None:
        return b"$-1\r\n"
    if isinstance(data, list):
        return b"*%d\r\n" % len(data) + b"".join(map(written, data))
    return b":%d\r\n" % data


def kept(module: Any) -> None:
    key = object()
    for thread in [threading.Thread(target=module.of_thread, args=(key, list)) for _ in range(8)]:
        thread.start()
        thread.join()
    with suppress(ZeroDivisionError):
        module.of_thread(key, lambda: 1 // 0)
    outer = module.of_thread(key, lambda: [module.of_thread(key, dict)])
    assert outer == {}
    assert module.of_thread(key, list) is outer
    for arguments in ((), (key,), ({}, list), (key, None, 1)):
        try:
            module.of_thread(*arguments)
        except TypeError:
            continue
        raise AssertionError(f"{arguments} was accepted")


def struck(module: Any, chance: random.Random) -> None:
    """Raise from a signal handler within an exchange, which must end by that."""

    def strike(*_: object) -> None:
        raise StruckError

    former = signal.signal(signal.SIGALRM, strike)
    sock, peer = pair()
    with sock, suppress(StruckError):
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 2e-3))
        try:
            module.ask(sock.fileno, b"nobody answers", SECONDS)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    os.close(peer)
    signal.signal(signal.SIGALRM, former)


def main() -> int:
    module, count, seed = load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * FROM, limit[1]), limit[1]))
    chance = random.Random(seed)
    sock, peer = pair()
    threading.Thread(target=echo, args=(peer, random.Random(seed + 1)), daemon=True).start()
    kept(module)
    for number in range(count):
        size = chance.choice((1, 14, 40, 300, 16_384, 16_385, LONGEST))
        data = chance.randbytes(chance.randint(1, size))
        many = [chance.randint(-(10**9), 10**17) for _ in range(chance.randint(1, 10))]
        short = chance.choice((written(None), written(many[0]), written(many), data))
        if asked(module, sock, short) != short:
            print(f"question {number} with the seed {seed}: another reply than what was sent")
            return 1
        if number % 50 == 0:
            struck(module, chance)
    sock.shutdown(socket.SHUT_WR)
    assert module.ask(sock.fileno, b"", SECONDS) == b""
    print(f"{count} exchanges with the seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
