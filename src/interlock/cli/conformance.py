"""`interlock conformance`: play the recorded wire of Redisson with a client in any language."""

from __future__ import annotations

import contextlib
import json
import shlex
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, cast

from interlock.cli.status import Status, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Iterator, Mapping

    from interlock.conformance import Outcome

STARTING = 10.0
"""Seconds that a server has to start."""

DESCRIPTION = """\
Start CMD, a client in any language, and play recorded sequences of calls with it. After each call,
compare its answer, all keys and all messages with those of Java's Redisson. CMD reads one JSON
object per line from stdin and answers by one on stdout; the documentation has the protocol.
"""

EPILOG = """\
exit status:
    0   it departs nowhere, as far as it supports the objects
    1   it departs; the table and the list of departures tell where
   64   usage: the command line, or a database that is not empty
   69   CMD or the server does not answer as it should

examples:
  interlock conformance --client 'node driver.js'
  interlock conformance --client ./driver --only lock --only fair --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "--client", required=True, metavar="CMD", help="the client's driver, as in a shell"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="SEQUENCE",
        help="only this sequence, several times for several",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="a server with an empty database, which is emptied after each sequence "
        "(default: start one)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each line")


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Play all sequences, print what came of them, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: not used.

    Raises:
        UsageError: an empty command, a database that is in use, or no server program.
        ClientError: the client does not answer as it should.
    """
    del environ
    from interlock.conformance import run  # noqa: PLC0415 - seldom asked for

    command = shlex.split(str(given["client"]))
    if not command:
        raise UsageError("--client is empty: it is a command with its arguments")
    outcomes: list[Outcome] = []
    with _server(cast("str | None", given["url"])) as url:
        for outcome in run(command, url, cast("list[str]", given["only"])):
            outcomes.append(outcome)
            if given["json"]:
                print(json.dumps(_told(outcome)), flush=True)
    if not outcomes:
        raise UsageError("there is no such sequence")
    if not given["json"]:
        print("\n".join(table(outcomes)))
    return Status.FOUND if any(outcome.departures for outcome in outcomes) else 0


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
            yield ""
            yield f"{outcome.sequence} as {outcome.name!r}, after {each.step}: {each.part}"
            yield f"  wanted {json.dumps(each.wanted)}"
            yield f"  found  {json.dumps(each.found)}"


def _told(outcome: Outcome) -> dict[str, object]:
    from dataclasses import asdict  # noqa: PLC0415 - as above

    return asdict(outcome)


@contextlib.contextmanager
def _server(url: str | None) -> Generator[str]:
    """Give the URL of a server whose database is empty: the one at *url*, or one of our own."""
    import redis  # noqa: PLC0415 - loading it takes longer than all else

    with contextlib.ExitStack() as stack:
        chosen = url or stack.enter_context(_own_server())
        client = stack.enter_context(cast("Any", redis.Redis).from_url(chosen))
        deadline = time.monotonic() + STARTING
        while True:
            try:
                keys = client.dbsize()
                break
            except redis.ConnectionError as error:
                if url or time.monotonic() > deadline:
                    raise UsageError(f"the server cannot be reached: {error}") from error
                time.sleep(0.05)
        if keys:
            raise UsageError(
                f"the database has {keys} keys, which would be lost: name an empty one"
            )
        try:
            yield chosen
        finally:
            with contextlib.suppress(redis.RedisError):
                client.flushdb()


@contextlib.contextmanager
def _own_server() -> Generator[str]:
    from interlock._embedded.binary import find_binary  # noqa: PLC0415 - as above

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        started = [find_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        process = subprocess.Popen(  # noqa: S603 - the server program
            started, cwd=directory, stdout=subprocess.DEVNULL
        )
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait()
