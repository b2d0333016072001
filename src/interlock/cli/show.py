"""`interlock show`: everything that is known about some locks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from interlock._core.kinds import sight_of
from interlock._core.model.foreign_text import safe
from interlock.cli.reading import add_url, open_reader
from interlock.cli.status import Status, say
from interlock.cli.table import clock_time, kind_of, renewed_of, waiting_of
from interlock.inspection.why import objects_of
from interlock.inspection.words import client_of, counted, end_of, given_to, silence

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from interlock.inspection import LockInfo
    from interlock.inspection.info import HolderInfo

DESCRIPTION = """\
Show the holders of each lock NAME with host, process, thread and times. Then show the waiters.
"""

EPILOG = """\
exit status:
    0   somebody holds or awaits each NAME
    1   nobody holds or awaits one of them
   64   usage: the command line or the URL is wrong
   69   a server could not be asked, or refused
"""


_NOBODY = {False: "nobody", None: "? (the server does not tell)"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument("names", metavar="NAME", nargs="+", help="the name of a lock")
    add_url(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object for each NAME, as a list if there are several",
    )


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Print the locks, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: for the URL.

    Raises:
        ConfigError: a URL that cannot be.
        ServerUnavailableError: a server could not be asked.
    """
    names, status = list(dict.fromkeys(cast("list[str]", given["names"]))), 0
    found: list[LockInfo] = []
    with open_reader(given, environ) as reader:
        for name in names:
            refused = reader.forbidden
            info = reader.describe(name)
            if info is not None:
                found.append(info)
            elif reader.forbidden > refused:
                say(f"the user has no right to read {name!r}")
                status = Status.UNAVAILABLE
            else:
                say(f"nobody holds or awaits {name!r}")
                for sentence in objects_of(name, reader.beside(name)):
                    say(sentence)
                status = max(status, Status.FOUND)
    for line in reader.missing() if found else ():
        say(line)
    if given["json"]:
        told = [info.as_dict() for info in found]
        if told:
            print(json.dumps(told if len(names) > 1 else told[0], indent=2))
    else:
        for info in found:
            print("\n".join(text_of(info)))
    return status


def text_of(info: LockInfo) -> Iterator[str]:
    """Yield the lines that describe a lock."""
    yield f"{safe(info.name)}: {kind_of(info)}"
    if info.free is not None:
        total = "" if info.total is None else f" of {info.total}"
        yield f"{sight_of(info.kind).number + ':':10}{info.free}{total}"
    if info.token is not None:
        yield f"token:    {info.token}"
    for holder in info.holders:
        yield from _holder(holder)
    if info.holder_count > len(info.holders):
        yield f"and {counted(info.holder_count - len(info.holders), 'more holder')}"
    waiting = _NOBODY.get(info.awaited) or waiting_of(info)
    yield f"waiting:  {waiting}"
    if info.deadlock:
        yield "deadlock: one who waits for it is in a deadlock; interlock deadlocks names the ring"
    for place, waiter in enumerate(info.waiters, 1):
        unknown = "another library, or waiting for less than a second"
        if info.waited_for_permits:
            unknown = "no card tells its process"
        where = safe(client_of(waiter.client, unknown))
        thread = f" {safe(waiter.thread)}" if waiter.thread else ""
        yield f"  {place:3} {safe(waiter.holder)}  {where}{thread}  for {clock_time(waiter.waited)}"


def _holder(holder: HolderInfo) -> Iterator[str]:
    """Yield the lines about one holder."""
    where = safe(client_of(holder.client, "another library, or not renewed yet"))
    if holder.claim:
        where = safe(given_to(holder))
    yield f"holder:   {safe(holder.holder)}"
    yield f"  client  {where}"
    if holder.thread:
        yield f"  thread  {safe(holder.thread)}"
    yield f"  held    {clock_time(holder.held_for)}, depth {holder.depth}"
    if silent := silence(holder.client):
        yield f"  answers no: {silent}"
    yield f"  renewed {renewed_of(holder)}; {end_of(holder)}"
    if holder.trace_id:
        yield f"  trace   {safe(holder.trace_id)}"
    if holder.client.doubt:
        yield f"  doubt   {safe(holder.client.doubt)}"
