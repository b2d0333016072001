"""The stage of an incident: a server, programs, and everything that operators look at."""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from faultlab.incidents.monitoring import Monitoring
from faultlab.incidents.program import NAME
from faultlab.leftovers import PREFIX
from interlock import Options
from interlock._links.urls import open_url
from interlock.cli import main as command
from interlock.errors import InterlockError
from interlock.inspection import Reader
from interlock.inspection.face import account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from tests.support.servers import RedisServer

START = 90.0
"""Seconds in which everything starts, on a machine that is busy."""
PAUSE = 0.2
"""Seconds between two looks."""
ROOT = Path(__file__).parents[2]


class Program:
    """A running `program`.

    Attributes:
        port: of its metrics.
    """

    def __init__(self, url: str, job: str, log: Path) -> None:
        """Start it, and wait until it has what its *job* takes."""
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faultlab.incidents.program", url, job],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=ROOT,
                env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},
            )
        assert self._process.stdout is not None
        word, _, port = self._process.stdout.readline().decode().partition(" ")
        if word != "ready":
            raise RuntimeError(f"{job} did not start: {log.read_text()}")
        self.port = int(port)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()

    def freeze(self) -> None:
        """Stop it, with its connections open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue it."""
        self._process.send_signal(signal.SIGCONT)

    def say(self, word: str) -> None:
        """Give it *word* on its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        """End it, and wait for that."""
        self._process.kill()
        self._process.communicate()


class Stage:
    """One server and who looks at it; a context manager.

    Attributes:
        server: The server.
        programs: Those that were started, in this order.
        url: Where operators look.
        monitoring: Prometheus, once the stage is entered.
    """

    def __init__(self, server: RedisServer, url: str = "") -> None:
        """Take a *server* that runs; operators look at *url*."""
        self.server = server
        self.programs: list[Program] = []
        self.url = url or server.url()
        self.monitoring: Monitoring
        self._stack = contextlib.ExitStack()
        self._printing = threading.Lock()

    def __enter__(self) -> Self:
        """Start the console, the exporter and Prometheus."""
        with contextlib.ExitStack() as stack:
            self._home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))
            self._console = stack.enter_context(_served("console", self.url))
            self._exporter = stack.enter_context(_served("exporter", self.url))
            self.monitoring = stack.enter_context(Monitoring(self._home))
            stack.callback(self._end_programs)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End everything but the server."""
        self._stack.close()

    def _end_programs(self) -> None:
        for program in self.programs:
            program.close()

    def start(self, job: str, url: str = "") -> Program:
        """Start a program that does *job* at *url*, and scrape it."""
        log = self._home / f"program{len(self.programs)}.log"
        program = Program(url or self.server.url(), job, log)
        self.programs.append(program)
        exporter = int(self._exporter.split(":")[2].partition("/")[0])
        self.monitoring.scrape([exporter, *(each.port for each in self.programs)])
        return program

    def see(self, words: str) -> None:
        """Wait until everybody sees what is there: *words* are on the lock's page."""
        _wait(lambda: bool(re.search(words, self.console())), f"the console tells {words}")
        # The list has seen it, too, and Prometheus has scraped all programs.
        number = len(self.programs) + 1
        query = f"count(up == 1) == {number}"
        _wait(lambda: self.monitoring.sees(query), "Prometheus sees all")
        _wait(lambda: self.monitoring.sees("interlock_locks > 0"), "the exporter tells of it")

    def log(self) -> str:
        """Return what the programs have logged."""
        logs = sorted(self._home.glob("program*.log"))
        return "\n".join(each.read_text().strip() for each in logs).strip()

    def why(self) -> str:
        """Return what `interlock why` says, with the state first and the commands last."""
        try:
            with Reader(open_url(self.url), Options()) as reader:
                _, account = account_of(reader, NAME)
        except InterlockError as error:
            return f"error: {error}"
        return " ".join([f"{account.state}: {account.text}", *account.commands])

    def list(self) -> str:
        """Return what `interlock list` says."""
        return self._command("list")

    def doctor(self) -> str:
        """Return what `interlock doctor` says."""
        return self._command("doctor")

    def _command(self, name: str) -> str:
        """Return what a command prints; one at a time, because the output is the process's."""
        out = io.StringIO()
        with self._printing, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            command([name, "--url", self.url])
        return out.getvalue()

    def console(self) -> str:
        """Return the text of the lock's page, and of the timeline."""
        return _text(f"{self._console}lock?name={NAME}") + _text(
            f"{self._console}timeline?show=all"
        )

    def metrics(self) -> str:
        """Return what the exporter counts, but what is zero or about itself."""
        lines = _get(self._exporter).splitlines()
        return "\n".join(each for each in lines if not re.match(r"#|interlock_exporter", each))

    def alerts(self) -> str:
        """Return the alerts that have fired."""
        return " ".join(sorted(self.monitoring.fired()))

    @property
    def witnesses(self) -> dict[str, Callable[[], str]]:
        """Return who can be asked."""
        return {
            "log": self.log,
            "why": self.why,
            "list": self.list,
            "console": self.console,
            "metrics": self.metrics,
            "alerts": self.alerts,
            "doctor": self.doctor,
        }


def _wait(condition: Callable[[], bool], what: str) -> None:
    """Wait until *condition* holds.

    Raises:
        TimeoutError: It did not within `START` seconds.
    """
    until = time.monotonic() + START
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited in vain until {what}")
        time.sleep(PAUSE)


@contextlib.contextmanager
def _served(what: str, url: str) -> Iterator[str]:
    """Run a subcommand that serves; give its URL."""
    arguments = [sys.executable, "-m", "interlock", what, "--listen", "127.0.0.1:0", "--url", url]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://\S+", process.stderr.readline().decode())
            assert found is not None
            yield found[0]
        finally:
            process.kill()


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=START) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
    return text


def _text(url: str) -> str:
    """Return the words of a page."""
    page = _get(url)
    body = page.partition('<main id="main"')[2].partition(">")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
