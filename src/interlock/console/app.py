"""The pages of the console.

Rules:

* Nothing is changed and nothing is kept: no form but a search, no cookie, no file.
* Only GET and HEAD are answered, and only under a name of this machine. Else a page elsewhere could
  read this one by a name of its own that leads here (DNS rebinding).
* Each text on a page is escaped, and its control characters are shown. The policy of a page allows
  no script but the console's own file.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from interlock._core.model.foreign_text import safe
from interlock.console.graph import graph_of
from interlock.console.reading import Reading
from interlock.inspection import Deadlock, Reader, words
from interlock.inspection.why import account_of
from interlock.sync.client import Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from interlock._links.topology import Topology
    from interlock.inspection import LockInfo
    from interlock.inspection.why import Account
    from interlock.options import Options

HERE = Path(__file__).parent
SHOWN = 200
"""Locks on a page."""
FRESH, DEADLOCKS_FRESH = 1.0, 2.0
"""Seconds after which the locks, or the deadlocks, are read again."""
PATIENCE, LITTLE_PATIENCE = 2.0, 0.5
"""Seconds for which a page waits for what it shows, and for what can be added later."""
KEPT = 100
"""Locks of which the last answer is kept for the next reader."""
LOCAL = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class Found(NamedTuple):
    """One lock; None if nobody holds or awaits it."""

    info: LockInfo | None


class Console:
    """Makes the pages.

    Args:
        servers: one server, what finds it, or a cluster.
        options: of the client that reads.
    """

    def __init__(self, servers: Topology, options: Options) -> None:
        self._servers = servers
        self._options = options
        self._locks = Reading(self._read_locks, FRESH)
        self._deadlocks = Reading(self._read_deadlocks, DEADLOCKS_FRESH)
        self._lock = lru_cache(KEPT)(self._readings_of)

    def locks(self, request: Request) -> Response:
        """Answer with the list of locks, the worst first."""
        search = request.query_params.get("q", "").strip()
        read, deadlocks = self._locks.answer(PATIENCE), self._deadlocks.answer(0)
        rings = deadlocks.value or []
        stuck = {step.waits_for for ring in rings for step in ring.steps}
        found = [info for info in read.value or () if _matches(info, search)]
        # A deadlock never ends by itself. Other locks stay in their order.
        found.sort(key=lambda info: info.name not in stuck)
        return self._page(
            "locks.html",
            read=read,
            search=search,
            stuck=stuck,
            rings=rings,
            found=len(found),
            locks=found[:SHOWN],
            troubles=_troubles(found, stuck),
        )

    def lock(self, request: Request) -> Response:
        """Answer with everything about one lock."""
        name = request.query_params.get("name", "")
        finding, explaining = self._lock(name)
        # The facts do not wait for the advice.
        _ = explaining.answer(0)
        read, why = finding.answer(PATIENCE), explaining.answer(LITTLE_PATIENCE)
        return self._page("lock.html", read=read, name=name, why=why)

    def graph(self, request: Request) -> Response:
        """Answer with who waits for whom."""
        del request
        read, deadlocks = self._locks.answer(PATIENCE), self._deadlocks.answer(PATIENCE)
        rings = deadlocks.value or []
        graph = graph_of(read.value or (), rings)
        return self._page("graph.html", read=read, search=deadlocks, rings=rings, graph=graph)

    def _page(self, template: str, **values: Any) -> Response:
        made = _templates().get_template(template)
        return HTMLResponse(made.render(path=template, server=self._servers.where, **values))

    def _read_locks(self) -> list[LockInfo]:
        with Client(self._servers, self._options) as client:
            return sorted(client.locks(), key=words.trouble)

    def _read_deadlocks(self) -> list[Deadlock]:
        with Client(self._servers, self._options) as client:
            return sorted(
                map(_turned, client.deadlocks()), key=lambda each: each.steps[0].waits_for
            )

    def _readings_of(self, name: str) -> tuple[Reading[Found], Reading[Account]]:
        return (
            Reading(partial(self._find, name), FRESH),
            Reading(partial(self._explain, name), FRESH),
        )

    def _find(self, name: str) -> Found:
        with Client(self._servers, self._options) as client:
            return Found(client.describe(name))

    def _explain(self, name: str) -> Account:
        with Reader(self._servers, self._options) as reader:
            return account_of(reader, name)[1]


def _turned(ring: Deadlock) -> Deadlock:
    """Return *ring* from the same step on each time, so that its picture stays as it is."""
    first = min(range(len(ring.steps)), key=lambda at: ring.steps[at].waits_for)
    return Deadlock((*ring.steps[first:], *ring.steps[:first]))


class Gate:
    """Refuses what the console does not answer, and gives each answer its headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._app
        if scope["type"] == "http":
            app = _refusal(scope) or app
        await app(scope, receive, send_with_headers)


def _refusal(scope: Scope) -> Response | None:
    """Return why a request is not answered; None if it is."""
    hosts = Headers(scope=scope).getlist("host")
    if len(hosts) != 1 or not LOCAL.fullmatch(hosts[0]):
        why = "The console answers only under localhost, 127.0.0.1 and [::1].\n"
        return PlainTextResponse(why, 403)
    if scope["method"] not in ("GET", "HEAD"):
        why = "The console only shows locks: it answers GET and HEAD.\n"
        return PlainTextResponse(why, 405, {"Allow": "GET, HEAD"})
    return None


def make_app(servers: Topology, options: Options) -> ASGIApp:
    """Return the console as an ASGI application.

    Args:
        servers: one server, what finds it, or a cluster.
        options: of the client that reads.
    """
    console = Console(servers, options)
    routes = [
        Route("/", console.locks),
        Route("/lock", console.lock),
        Route("/graph", console.graph),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Gate(Starlette(routes=routes))


@lru_cache
def _templates() -> Environment:
    """Return the templates, which escape everything that is put into them."""
    made: Any = Environment(  # its tables are not typed
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        url=_url,
        called=words.called,
        duration=words.duration,
        since=words.clock_at,
        silence=words.silence,
        waiting=_waiting,
        without_holders=words.without_holders,
    )
    made.filters["clock"] = _clock
    return cast("Environment", made)


def _clock(at: float) -> str:
    return time.strftime("%X", time.localtime(at))


def _shown(value: object) -> object:
    """Return a text without control characters; markup is another type than `str`."""
    return safe(value) if type(value) is str else value


def _url(name: str) -> str:
    """Return the address of the page of the lock *name*."""
    return f"/lock?{urlencode({'name': name})}"


def _waiting(info: LockInfo) -> str:
    """Return how many wait for a lock, and for how long."""
    if not info.awaited:
        return "nobody" if info.awaited is False else "not known"
    count, longest = info.waiting_at_least, info.longest_wait
    return str(count) if longest is None else f"{count}, the longest for {words.duration(longest)}"


def _matches(info: LockInfo, search: str) -> bool:
    """Return whether *search* is in the name of a lock, or in what its holders are called."""
    text = search.casefold()
    return text in info.name.casefold() or any(
        text in words.called(each.client, each.thread, each.holder).casefold()
        for each in info.holders
    )


def _troubles(found: Sequence[LockInfo], stuck: set[str]) -> list[str]:
    """Return how many locks have which trouble, in words."""
    counts = {
        "in a deadlock": sum(info.name in stuck for info in found),
        "with a dead holder": sum(info.dead for info in found),
        "late": sum(info.late for info in found),
        "with a silent holder": sum(info.silent and not info.dead for info in found),
        "awaited": sum(bool(info.awaited) for info in found),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]
