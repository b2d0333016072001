"""Does a client in another language speak Redisson's protocol?

    python -m tests.interop.conformance 'node tests/interop/node-redisson.js' [--only SEQUENCE]

It plays the sequences that were recorded of Redisson with a *driver*, a program around the client.
After each call it compares the answer, all keys (type, fields, time to live) and all messages with
those of Redisson. Where interlock differs on purpose, both ways are accepted. It starts a server of
its own, unless ``--url`` names one with an empty database.

A driver reads one JSON object per line from stdin and answers each by one line on stdout, in any
order. It ends when stdin does. A call has these fields:

* ``id``: a number, which the answer repeats
* ``thread``: who calls. Each name is an owner of its own, and its calls run one after another
* ``do``: ``connect`` (with ``url``), ``sleep`` (with ``seconds``), or an operation of `sequences`
* ``kind`` and ``name`` of the object
* ``timeout`` and ``lease`` in seconds; without ``timeout`` the call waits for ever, and without
  ``lease`` the hold is renewed
* ``n``, ``values``, ``ids``: how many; the values of a group; the ids of permits

An answer has the ``id`` and these:

* ``owner``: the second half of the thread's holder id, ``<client id>:<owner>``
* ``value``: of ``connect`` the client id; of an acquire whether it acquired, and of leased permits
  their ids
* ``error`` and ``message`` if the call raised. ``Unsupported`` says that the client has no such
  object or operation; all other errors count as a refusal

The exit status is 0 if the client departs nowhere, 1 if it departs, and 2 if the command line is
wrong or the driver does not answer as it should.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import shlex
import subprocess
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import redis
from tests.interop import fixtures
from tests.interop.agent import PATIENCE
from tests.interop.sequences import NAMES, SEQUENCES
from tests.interop.stage import Stage
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from tests.interop.sequences import Step

UNSUPPORTED = "Unsupported"
QUIET = 0.2
"""Seconds without any command after which a call waits, or has gone on."""
SETTLING = 10.0
"""Seconds after which a departure is one: a busy machine may need them to begin or to go on."""

Call = Future[dict[str, Any]]


class DriverError(Exception):
    """The driver could not be started, ended, or wrote what is not an answer."""


class RefusedError(Exception):
    """A call raised in the client.

    Attributes:
        kind: what, in the client's words.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


@dataclass(slots=True)
class Outcome:
    """How a client played one sequence under one name.

    Attributes:
        sequence: which.
        name: of the object.
        steps: how many calls were compared.
        unsupported: whether the client does not have such an object.
        departures: where the first call that departs differs, as lines of text.
    """

    sequence: str
    name: str
    steps: int = 0
    unsupported: bool = False
    departures: list[str] = field(default_factory=list)


class Driver:
    """One process that was started by *command* and connects to *url*.

    Attributes:
        client_id: what the client says that it is, the first half of its holder ids.

    Raises:
        DriverError: it cannot be started, or does not connect.
    """

    def __init__(self, command: Sequence[str], url: str) -> None:
        self._ids = itertools.count(1)
        self._pending: dict[int, Call] = {}
        self._ended = ""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as error:
            raise DriverError(f"the driver cannot be started: {error}") from error
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.client_id = _field(answer_of(self.start("connect", "connect", url=url)), "value")
        except RefusedError as error:
            self.end()
            raise DriverError(f"the client cannot connect: {error}") from error
        except DriverError:
            self.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        self._reader.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # nobody reads what was written last
                pipe.close()

    def owner(self, thread: str) -> str:
        """Return the holder id of *thread*."""
        return f"{self.client_id}:{_field(answer_of(self.start(thread, 'sleep', seconds=0)))}"

    def start(self, thread: str, do: str, **rest: Any) -> Call:
        """Send a call to *thread* without waiting for it."""
        number, future = next(self._ids), Call()
        self._pending[number] = future
        line = json.dumps({"id": number, "thread": thread, "do": do, **rest})
        try:
            print(line, file=self._process.stdin, flush=True)
            gone = not self._reader.is_alive()
        except OSError:
            gone = True
        if gone:
            self._reader.join(PATIENCE)  # it knows why
            raise DriverError(self._ended or "the driver has closed its input")
        return future

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                reply = json.loads(line)
                self._pending.pop(reply["id"]).set_result(reply)
            except (ValueError, LookupError, TypeError):
                self._ended = f"the driver wrote {line[:200]!r}, which is no answer"
                break
        else:
            self._ended = f"the driver has ended {self._how()}"
        for future in list(self._pending.values()):
            future.set_exception(DriverError(self._ended))

    def _how(self) -> str:
        """Return how the process ended, which has closed its stdout."""
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "its output, but not itself"
        if status < 0:
            return f"by signal {-status}"
        return f"with exit status {status}; what it wrote to stderr is above"


def _field(reply: dict[str, Any], name: str = "owner") -> str:
    """Return a field of an answer that must have it."""
    if not isinstance(reply.get(name), str | int):
        raise DriverError(f"the driver's answer {json.dumps(reply)} has no {name!r}")
    return str(reply[name])


def answer_of(call: Call) -> dict[str, Any]:
    """Return the answer to a call.

    Raises:
        RefusedError: the call raised.
        DriverError: there is no answer.
    """
    try:
        reply = call.result(PATIENCE)
    except TimeoutError as error:
        raise DriverError(f"the driver has not answered for {PATIENCE:g} s") from error
    if "error" in reply:
        raise RefusedError(str(reply["error"]), str(reply.get("message", "")))
    return reply


class _Comparison(Stage):
    """The stage of the recordings, on which a driver's calls are compared with them."""

    def compare(self, driver: Driver, sequence: str, name: str) -> Outcome:
        """Play *sequence* up to the first call that departs: later ones may only follow from it."""
        self._redis.flushdb()
        outcome, steps = Outcome(sequence, name), SEQUENCES[sequence]
        states = fixtures.read(fixtures.path(sequence, name))
        # Threads that never held anything.
        threads = {step.thread: f"{step.thread} {time.monotonic()}" for step in steps}
        self._ids = {driver.owner(own): f"<{thread}>" for thread, own in threads.items()}
        self._client = driver.client_id
        self._owner = re.compile(rf"{re.escape(driver.client_id)}:[^:\s]+")
        given: dict[int, list[str]] = {}
        waiting: dict[str, Call] = {}
        for number, step in enumerate(steps):
            self._acting = step.thread
            executed = self._executed() if step.waits else None
            call = driver.start(threads[step.thread], step.do, **_arguments(step, name, given))
            try:
                answer = None if step.waits else self._answer_of(call, given, number)
            except RefusedError:
                outcome.unsupported = True
                break
            if step.waits:
                waiting[step.thread] = call
            self._waits = list(waiting)
            found = self._seen(call, answer, states[number], executed, settle=bool(waiting))
            waiting = {who: each for who, each in waiting.items() if not each.done()}
            outcome.steps += 1
            outcome.departures += _departures(states[number], found)
            if outcome.departures:
                break
        return outcome

    def _answer_of(self, call: Call, given: dict[int, list[str]], number: int) -> object:
        try:
            value = answer_of(call).get("value")
        except RefusedError as error:
            if error.kind == UNSUPPORTED:
                raise
            return "refused"
        if isinstance(value, list):
            given[number] = list(map(str, value))
            for at, ident in enumerate(given[number]):
                self._ids[ident] = f"<permit {at} of step {number}>"
            return f"{len(value)} permits"
        return "done" if value in (None, True) else value

    def _seen(
        self,
        call: Call,
        answer: object,
        wanted: dict[str, Any],
        executed: int | None,
        *,
        settle: bool,
    ) -> dict[str, Any]:
        """Return what is to be seen of a call.

        Args:
            call: what was called.
            answer: its answer; None of a call that is to wait.
            wanted: what Redisson leaves.
            executed: how many commands the server had executed before a call that is to wait.
            settle: whether calls wait: they must first begin to, or go on.
        """
        deadline = time.monotonic() + SETTLING
        if settle:
            self._rest(executed, deadline)
        messages: list[list[str]] = []
        while True:
            messages += self._messages()
            told = ("done" if call.done() else "waits") if answer is None else answer
            found = {"answer": told, "keys": self._keys(), "messages": messages}
            if not settle or not any(_departures(wanted, found)) or time.monotonic() > deadline:
                return found
            time.sleep(QUIET)  # nothing may happen meanwhile

    def _rest(self, executed: int | None, deadline: float) -> None:
        """Wait until clients have sent no command for `QUIET` seconds, after any since *executed*.

        A client does not report that it waits. Each question is a command, too.
        """
        last = self._executed()
        begun = executed is None or last > executed + 1
        while time.monotonic() < deadline:
            time.sleep(QUIET)  # nothing may happen meanwhile
            before, last = last, self._executed()
            quiet = last == before + 1
            if begun and quiet:
                return
            begun = begun or not quiet

    def _executed(self) -> int:
        return int(self._redis.info("stats")["total_commands_processed"])


def _arguments(step: Step, name: str, given: dict[int, list[str]]) -> dict[str, Any]:
    rest = asdict(step)["rest"]
    if step.permits is not None:
        rest["ids"] = given.get(step.permits, [])
    return {"kind": step.kind, "name": name, **rest}


def _departures(wanted: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Yield where *found* is neither what Redisson leaves nor what interlock leaves on purpose."""
    ours = wanted.get("interlock", {})
    for part, value in found.items():
        if value not in (wanted[part], ours.get(part, wanted[part])):
            yield (
                f"after {wanted['step']}: {part}\n  wanted {json.dumps(wanted[part])}\n"
                f"  found  {json.dumps(value)}"
            )


def run(command: Sequence[str], url: str, only: Sequence[str] = ()) -> list[Outcome]:
    """Return how the client that *command* starts plays each sequence under each name.

    Args:
        command: program and arguments.
        url: a server whose database is empty, and is emptied again and again.
        only: names of sequences; none for all.

    Raises:
        DriverError: the driver does not keep to the protocol.
    """
    # A client may remember what it has set up: first come those about missing objects.
    chosen = sorted(only or SEQUENCES, key=lambda each: "missing" not in each)
    with Driver(command, url) as driver, redis.Redis.from_url(url) as server:
        with contextlib.closing(_Comparison(server)) as comparison:
            outcomes = [
                comparison.compare(driver, sequence, name) for sequence in chosen for name in NAMES
            ]
        server.flushdb()
    return outcomes


def table(outcomes: list[Outcome]) -> Iterator[str]:
    """Yield a table in Markdown with a row for each sequence, and then the departures."""
    rows: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        rows[outcome.sequence].append(outcome)
    yield "| sequence | calls | result |"
    yield "|---|---|---|"
    for sequence, played in rows.items():
        departs = any(each.departures for each in played)
        missing = any(each.unsupported for each in played)
        result = "departs" if departs else "not supported" if missing else "as Redisson"
        yield f"| {sequence} | {sum(each.steps for each in played)} | {result} |"
    for outcome in outcomes:
        for each in outcome.departures:
            yield f"\n{outcome.sequence} as {outcome.name!r}, {each}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the sequences, print what came of them, and return the exit status."""
    parser = argparse.ArgumentParser("tests.interop.conformance", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("driver", help="the command that starts it, as in a shell")
    parser.add_argument("--only", action="append", default=[], choices=SEQUENCES)
    parser.add_argument("--url", help="a server with an empty database (default: start one)")
    given = parser.parse_args(arguments)
    command = shlex.split(given.driver)
    if not command:
        parser.error("the driver is empty: it is a command with its arguments")
    with contextlib.ExitStack() as stack:
        url = given.url or stack.enter_context(RedisServer()).url()
        with redis.Redis.from_url(url) as server:
            if keys := server.dbsize():
                parser.error(f"the database has {keys} keys, which would be lost")
        try:
            outcomes = run(command, url, given.only)
        except DriverError as error:
            parser.error(str(error))
    print("\n".join(table(outcomes)))
    return int(any(outcome.departures for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
