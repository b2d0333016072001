"""Does a client in another language speak Redisson's protocol?

    python -m tests.interop.conformance 'python tests/interop/peer.py sync' [--only SEQUENCE]

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
import json
import shlex
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis
from tests.interop import fixtures
from tests.interop.agent import UNSUPPORTED, Agent, AgentDiedError, AgentError
from tests.interop.sequences import NAMES, SEQUENCES
from tests.interop.stage import Stage
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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


def compare(stage: Stage, driver: Agent, sequence: str, name: str) -> Outcome:
    """Play *sequence* up to the first call that departs: later ones may only follow from it."""
    outcome = Outcome(sequence, name)
    wanted = fixtures.read(fixtures.path(sequence, name))
    try:
        for number, found in enumerate(stage.play(driver, name, SEQUENCES[sequence])):
            outcome.steps += 1
            outcome.departures += _departures(wanted[number], found)
            if outcome.departures:
                break
    except AgentError as error:
        if error.kind != UNSUPPORTED:
            raise
        outcome.unsupported = True
    return outcome


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
        OSError: the driver cannot be started.
        AgentError: the client cannot connect.
        AgentDiedError: the driver ended, or does not keep to the protocol.
    """
    # A client may remember what it has set up: first come those about missing objects.
    chosen = sorted(only or SEQUENCES, key=lambda each: "missing" not in each)
    with Agent("driver", command, None) as driver, redis.Redis.from_url(url) as server:
        driver.connect(url=url)
        with contextlib.closing(Stage(server)) as stage:
            outcomes = [
                compare(stage, driver, sequence, name) for sequence in chosen for name in NAMES
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
        except (OSError, AgentError, AgentDiedError) as error:
            parser.error(str(error) or "the driver does not answer")
    print("\n".join(table(outcomes)))
    return int(any(outcome.departures for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
