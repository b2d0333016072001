import socket
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

_T = TypeVar("_T")

def ask(
    fileno: Callable[[], int], data: bytes, seconds: float, /
) -> int | list[int] | bytes | None: ...
def boottime() -> float: ...
def exchange(sock: socket.socket, data: bytes, seconds: float, /) -> bytes: ...
def of_thread(key: object, make: Callable[[], _T], /) -> _T: ...
def parse(data: bytes, place: int, error: type[Exception], /) -> tuple[object, int] | int: ...
def receive(
    token: Lock,
    wakeup: Lock | None,
    sock: socket.socket,
    bell: socket.socket | None,
    rest: list[bytes | int],
    messages: deque[object],
    seconds: float,
    /,
) -> int | None: ...
def send_all(sock: socket.socket, data: bytes, seconds: float, /) -> None: ...
def packed(parts: tuple[object, ...], /) -> bytes | None: ...
