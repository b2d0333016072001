"""Child processes for tests: each runs a few lines of Python, and its warnings are errors."""

from __future__ import annotations

import selectors
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import signal

_PRELUDE = """
import asyncio, logging, os, signal, sys, threading, time
import interlock, interlock.asyncio
url = sys.argv[1]
def say(*words):
    # By one write: a forked child says something at the same time.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def until(condition):
    while not condition():
        time.sleep(0.01)  # between two questions
def waiters(client):
    return len(client._driver.session.events.waits)
def renews_soon(client):
    # As `tests.support.renewal` has it.
    client._driver.session.watchdog.period = 0.3
    return client
def renewed(hold):
    left = [hold.remaining]
    def grown():
        left.append(hold.remaining)
        return left.pop(-2) < left[-1]
    until(grown)
# Which callbacks of an event loop took long is nothing to tell of: the machine may be busy.
logging.getLogger("asyncio").addFilter(lambda record: not record.msg.startswith("Executing "))
"""


FORKS = "ignore:This process:DeprecationWarning"
"""No error on Python 3.15: a process with threads forks."""


class Child:
    """A Python process that runs *code*, with `say`, `url` and the usual modules at hand.

    Args:
        code: what it runs; it talks by `say` and hears lines on its standard input.
        url: the server's.

    Attributes:
        pid: its process id.
    """

    def __init__(self, code: str, url: str) -> None:
        program = _PRELUDE + textwrap.dedent(code)
        self._process = subprocess.Popen(
            [sys.executable, "-X", "dev", "-W", "error", "-W", FORKS, "-c", program, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._process.kill()
        if (stderr := self._process.stderr) is not None and not stderr.closed:
            _, errors = self._process.communicate()
            if error is not None and errors:
                error.add_note(f"the process of Child wrote:\n{errors.decode()}")

    def hear(self, timeout: float = 60) -> str:
        """Return the next line that it says.

        Raises:
            EOFError: it ended without a word; the message is its standard error.
            TimeoutError: it was silent.
        """
        stdout, line = self._process.stdout, b""
        assert stdout is not None
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(deadline - time.monotonic()):
                    raise TimeoutError(f"nothing was said for {timeout} s")
                byte = stdout.read(1)
                if not byte:
                    raise EOFError(self._errors())
                line += byte
        return line.decode().rstrip()

    def tell(self, line: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def end(self, timeout: float = 60) -> tuple[int, str]:
        _, errors = self._process.communicate(timeout=timeout)
        return self._process.returncode, errors.decode()

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()
