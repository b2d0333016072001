import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from threading import Lock
from types import CodeType, FrameType, ModuleType
from typing import Any, Generic, Self, TypeVar

_T = TypeVar("_T")

class Answers:
    came: int
    served: bool
    def __new__(
        cls,
        loop: asyncio.AbstractEventLoop,
        error: type[Exception],
        copy_context: Callable[[], Context],
        cancelled: type[BaseException],
        early: type[Exception],
        /,
    ) -> Self: ...
    def __len__(self) -> int: ...
    def __call__(self) -> None: ...
    def expect(self, then: Callable[[object], None] | None, /) -> asyncio.Future[object]: ...
    def take(self, data: bytes, /) -> list[object] | tuple[list[object], int, int]: ...
    def forget(self) -> list[asyncio.Future[object]]: ...

class Unawaited(Generic[_T]):
    _coroutine: Coroutine[Any, Any, _T]
    def __new__(cls, coroutine: Coroutine[Any, Any, _T], /) -> Self: ...
    def __await__(self) -> Generator[Any, None, _T]: ...
    def __next__(self) -> Any: ...

class Whole:
    def __new__(cls, call: Callable[..., Any], undo: Callable[..., object], /) -> Self: ...
    def __call__(self, *args: Any) -> Any: ...

def line(frame: FrameType, name: str, /) -> tuple[CodeType, int]: ...
def ask(
    fileno: Callable[[], int], data: bytes, seconds: float, /
) -> int | list[int] | bytes | None: ...
def boottime() -> float: ...
def exchange(fileno: Callable[[], int], data: bytes, seconds: float, /) -> bytes: ...
def exchange_all(
    filenos: tuple[Callable[[], int], ...],
    commands: tuple[bytes, ...],
    replies: list[Any],
    seconds: float,
    least: int,
    linger: float,
    /,
) -> None: ...
def of_thread(key: object, make: Callable[[], _T], /) -> _T: ...
def of_thread_unless(
    key: object,
    make: Callable[[], _T],
    modules: dict[str, ModuleType],
    name: str,
    other: Callable[[object, Callable[[], _T]], _T],
    /,
) -> _T: ...
def owner_of_flow(*parts: Any) -> Any: ...
def parse_all(
    data: bytes, error: type[Exception], /
) -> list[object] | tuple[list[object], int, int]: ...
def receive(
    token: Lock,
    wakeup: Lock | None,
    sock: socket.socket,
    bell: socket.socket | None,
    rest: list[bytes | int],
    messages: deque[object],
    seconds: float,
    /,
) -> bool: ...
def send_all(fileno: Callable[[], int], data: bytes, seconds: float, /) -> None: ...
def packed(parts: tuple[object, ...], /) -> bytes | None: ...
