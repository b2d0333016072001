"""The pages of the console."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, is_dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode

import uvicorn
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

import interlock.asyncio
from interlock._core.model.foreign_text import safe
from interlock._drivers.background.log import log_break
from interlock.console.access import COOKIE, HEADERS
from interlock.console.changes import Happening, who
from interlock.console.graph import ROW
from interlock.console.order import COLUMNS, in_order
from interlock.console.watch import FILTERS
from interlock.errors import ConfigError, InterlockError
from interlock.inspection.face import read_lock, read_lock_and_more
from interlock.inspection.words import end_of, silence, without_holders

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from types import FrameType

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from interlock.console.access import Access
    from interlock.console.history import Chart
    from interlock.console.watch import Watch
    from interlock.inspection import LockInfo

HERE = Path(__file__).parent
PAGE = 100
"""Locks on one page."""
BAR, CHART_HEIGHT = 4, 32
"""Width of a minute in a chart, and the height of the chart."""
HEARTBEAT = 10.0
"""Seconds after which a browser is told that the console is there, though nothing has changed."""
JSON = ".json"
"""How the path of a page ends that is wanted for programs."""
LONGEST_BODY = 10_000
"""Bytes of a form."""
LONGEST_SENDING = 10.0
"""Seconds for a form to arrive."""
NOT_NAMED = (
    "The console does not answer under this name, or to a page of another one. "
    "Start it with --host NAME if browsers reach it by that name."
)


def seconds(value: float | None) -> str:
    """Return a duration in words: ``00:04:10``, or ``3.2 s``."""
    if value is None:
        return ""
    if value < 60:  # noqa: PLR2004 - a minute
        return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"  # noqa: PLR2004
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest:02}"


def _url(path: str, **query: object) -> str:
    given = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def _waiting(info: LockInfo) -> str:
    """Return how many wait for a lock: nothing if nobody does, a question mark if it is unknown."""
    count = info.waiting_at_least
    return str(count) if count else "" if info.waiting_known else "?"


def _bars(chart: Chart, figure: str) -> list[tuple[int, int, int]]:
    """Return of each bar of a chart where it begins, its top, and its height."""
    numbers: list[int] = [getattr(each, figure) for each in chart.minutes]
    most = max(*numbers, 1)
    heights = [-(-number * CHART_HEIGHT // most) for number in numbers]
    return [
        (place * BAR, CHART_HEIGHT - height, height)
        for place, height in enumerate(heights)
        if height
    ]


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _shown(value: object) -> object:
    """Return a text without control characters, names too. Hidden fields keep them by `| e`."""
    return safe(value) if type(value) is str else value  # markup is another type


@lru_cache
def templates() -> Environment:
    """Return the templates, which escape everything that is put into them."""
    made: Any = Environment(  # its tables are not typed
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(seconds=seconds, clock=_clock)
    made.globals.update(
        url=_url,
        who=who,
        silence=silence,
        end_of=end_of,
        waiting=_waiting,
        bars=_bars,
        without_holders=without_holders,
        ROW=ROW,
    )
    return cast("Environment", made)


class Console:
    """Answers the requests.

    Args:
        watch: what is shown.
        access: who may see it.
    """

    def __init__(self, watch: Watch, access: Access) -> None:
        self.watch = watch
        self.access = access
        self._changed = asyncio.Condition()
        self._ending = False
        self._forms: set[asyncio.Task[dict[str, str]]] = set()
        self._announce: Callable[[], None] = lambda: None
        self._cache: tuple[int, dict[str, str]] = (-1, {})

    # Pages.

    async def locks(self, request: Request) -> Response:
        """Answer with the list of locks, sorted by trouble."""
        snapshot = self.watch.snapshot
        search = request.query_params.get("q", "")
        chosen = request.query_params.get("show", "")
        sort = request.query_params.get("sort", "")
        unknown = _unknown(chosen, sort)
        if unknown and str(request.scope["path"]).endswith(JSON):
            return JSONResponse({"problem": unknown}, status_code=400)
        found = snapshot.locks
        if search or chosen in FILTERS:
            found = tuple(info for info in found if _matches(info, search, chosen))
        sort = sort if sort.removeprefix("-") in COLUMNS else ""
        if sort:
            found = in_order(found, sort)
        first = _whole(request.query_params.get("from", ""))
        page = found[first : first + PAGE]
        self.watch.seen(info.name for info in page)
        return self._page(
            request,
            "locks.html",
            told=lambda: {
                "found": len(found),
                "from": first,
                "locks": [info.as_dict() for info in page],
                "counts": snapshot.counts,
                "chart": _plain(self.watch.history.chart()),
            },
            turned=partial(_turned, sort),
            sort=sort,
            chart=self.watch.history.chart(),
            locks=page,
            found=len(found),
            first=first,
            following=first + PAGE if first + PAGE < len(found) else 0,
            previous=max(first - PAGE, 0),
            search=search,
            chosen=chosen if chosen in FILTERS else "",
            counts=snapshot.counts,
        )

    async def lock(self, request: Request) -> Response:
        """Answer with everything about one lock."""
        name = request.query_params.get("name", "")
        error, info, account = "", None, None
        try:
            info, ends, beside = await asyncio.to_thread(
                read_lock_and_more, self.watch.servers, self.watch.options, name
            )
            account = self.watch.explain(name, info, ends, beside)
        except InterlockError as failure:
            error = str(failure)
        seen = [happening for happening in self.watch.history.happenings if happening.name == name]
        return self._page(
            request,
            "lock.html",
            told=lambda: {
                "lock": None if info is None else info.as_dict(),
                "account": None if account is None else asdict(account),
                "error": error,
                "seen": _plain(seen[:50]),
                "chart": _plain(self.watch.history.chart(name)),
            },
            cached=False,
            chart=self.watch.history.chart(name),
            name=name,
            info=info,
            account=account,
            error=error,
            seen=seen[:50],
            may_release=self.access.allow_release,
            done=request.query_params.get("done", ""),
        )

    async def graph(self, request: Request) -> Response:
        """Answer with the wait-for graph."""
        graph = self.watch.snapshot.graph
        return self._page(request, "graph.html", told=lambda: _plain(graph), graph=graph)

    async def clients(self, request: Request) -> Response:
        """Answer with the clients."""
        clients = self.watch.snapshot.clients()
        return self._page(
            request, "clients.html", told=lambda: {"clients": _plain(clients)}, clients=clients
        )

    async def timeline(self, request: Request) -> Response:
        """Answer with the losses, and everything else that was seen."""
        losses = request.query_params.get("show", "losses") != "all"
        seen = [
            each
            for each in self.watch.history.happenings
            if each.loss or not each.name or not losses
        ]
        return self._page(
            request,
            "timeline.html",
            told=lambda: {"seen": _plain(seen)},
            cached=False,
            seen=seen[:200],
            losses=losses,
        )

    # Actions.

    async def confirm(self, request: Request) -> Response:
        """Ask whether to break a hold; name its holder."""
        if not self.access.allow_release:
            return self.refused(request, 403, "This console was started without --allow-release.")
        name = request.query_params.get("name", "")
        holder = request.query_params.get("holder", "")
        info = await asyncio.to_thread(read_lock, self.watch.servers, self.watch.options, name)
        each = (
            next((each for each in info.holders if each.holder == holder), None) if info else None
        )
        return self._page(
            request, "release.html", cached=False, name=name, holder=holder, info=info, each=each
        )

    async def release(self, request: Request) -> Response:
        """Break the hold that the form names, if that holder has it still."""
        if not self.access.allow_release:
            return self.refused(request, 403, "This console was started without --allow-release.")
        form = await self._form(request)
        if not self.access.is_form(request, form.get("form", "")):
            return self.refused(request, 403, "This form is not the console's own, or too old.")
        name, holder, reason = (form.get(key, "") for key in ("name", "holder", "reason"))
        if not reason.strip():
            return self.refused(request, 400, "A reason is needed: the holder is told it.")
        told = f"{reason.strip()} (by {self.access.user(request)}, console)"
        client = interlock.asyncio.Client(self.watch.servers, self.watch.options)
        async with client:
            info = await client.describe(name)
            done = await client.force_release(name, holder=holder, reason=told)
        if done:
            kind = "lock" if info is None else info.kind
            log_break(kind, name, holder, reason.strip(), self.access.user(request))
            what = f"hold of {holder} broken: {told}"
            # The reading that misses the hold counts it.
            broken = Happening(time.time(), name, what, loss=True)
            self.watch.history.note(broken, counts=False)
        self.watch.read_now()
        outcome = "released" if done else "changed"
        return RedirectResponse(_url("/lock", name=name, done=outcome), status_code=303)

    async def login(self, request: Request) -> Response:
        """Take the token, and give a cookie for it."""
        form = await self._form(request)
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return self.refused(request, 403, "This form is not the console's own.")
        if not self.access.is_token(form.get("token", "")):
            await asyncio.sleep(0.3)  # a guess costs time
            return self.refused(request, 401, "That is not the token.")
        answer = RedirectResponse("/", status_code=303)
        self._give_cookie(request, answer, self.access.new_cookie(signed=True))
        return answer

    # Updates.

    async def events(self, request: Request) -> Response:
        """Tell the browser of each reading, until it goes."""
        del request
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[bytes]:
        version = -1
        yield b"retry: 1000\n\n"
        while not self._ending:
            self.watch.looked_at()
            if version == (newest := self.watch.snapshot.version):
                yield b": still here\n\n"
            else:
                version = newest
                yield f"event: changed\ndata: {version}\n\n".encode()
            try:
                async with asyncio.timeout(HEARTBEAT), self._changed:
                    _ = await self._changed.wait_for(partial(self._is_newer, version))
            except TimeoutError:
                continue

    def _is_newer(self, version: int) -> bool:
        return self._ending or self.watch.snapshot.version != version

    def end(self) -> None:
        """End the streams of updates: a server that stops waits for its answers."""
        self._ending = True
        self._announce()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        """Watch while the console serves."""
        del app
        loop = asyncio.get_running_loop()

        async def announce() -> None:
            async with self._changed:
                self._changed.notify_all()
            for form in self._forms if self._ending else ():
                _ = form.cancel()

        tasks: set[asyncio.Task[None]] = set()

        def begin() -> None:
            task = loop.create_task(announce())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        def changed() -> None:
            with suppress(RuntimeError):  # the loop has ended
                _ = loop.call_soon_threadsafe(begin)

        self._announce = changed
        stop = self.watch.listen(changed)
        self.watch.start()
        try:
            yield
        finally:
            stop()
            await asyncio.to_thread(self.watch.close)

    async def _form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form; none if the console ends before the form has arrived."""
        form = asyncio.ensure_future(_form(request))
        self._forms.add(form)
        try:
            return await form
        except asyncio.CancelledError:
            if self._ending:
                return {}
            raise
        finally:
            self._forms.discard(form)

    # How a page is made.

    def _page(
        self,
        request: Request,
        template: str,
        *,
        cached: bool = True,
        told: Callable[[], Mapping[str, object]] | None = None,
        **values: Any,
    ) -> Response:
        """Return the page, or its changing part if the script asks for that.

        Args:
            request: for the page.
            template: of the page.
            cached: whether the part is the same for all readers of one reading.
            told: returns what the page shows as what JSON can carry.
            **values: for the template.
        """
        self.watch.looked_at()
        if told is not None and str(request.scope["path"]).endswith(JSON):
            return JSONResponse({**self.watch.snapshot.about(), **told()})
        part = request.headers.get("x-part") == "live"
        cookie = request.cookies.get(COOKIE, "")
        fresh = not cookie
        if fresh:
            cookie = self.access.new_cookie(signed=False)
        text = None
        key = str(request.url)
        if part and cached:
            version, texts = self._cache
            if version != self.watch.snapshot.version:
                texts = {}
                self._cache = (self.watch.snapshot.version, texts)
            text = texts.get(key)
        if text is None:
            text = (
                templates()
                .get_template(template)
                .render(
                    part=part,
                    path=request.url.path,
                    here=str(request.url.path)
                    + (f"?{request.url.query}" if request.url.query else ""),
                    snapshot=self.watch.snapshot,
                    server=self.watch.servers.where,
                    form_token=self.access.form_token(cookie),
                    **values,
                )
            )
            if part and cached and len(self._cache[1]) < PAGE:
                self._cache[1][key] = text
        answer = HTMLResponse(text)
        if fresh and not self.access.token:
            self._give_cookie(request, answer, cookie)
        return answer

    def refused(self, request: Request, status: int, why: str) -> Response:
        """Return the page that says *why* there is no other."""
        text = (
            templates()
            .get_template("refused.html")
            .render(
                why=why,
                wants_token=bool(self.access.token) and status == 401,  # noqa: PLR2004
            )
        )
        del request
        return HTMLResponse(text, status_code=status)

    async def failed(self, request: Request, error: Exception) -> Response:
        """Return the page that says that the server did not answer, or what was wrong."""
        if isinstance(error, ConfigError):
            return self.refused(request, 400, str(error))
        return self.refused(request, 503, f"The server did not answer: {error}")

    @staticmethod
    def _give_cookie(request: Request, answer: Response, value: str) -> None:
        answer.set_cookie(
            COOKIE, value, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )


class Server(uvicorn.Server):
    """Serves the console; at a signal it ends the streams of updates first."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at signal *sig*."""
        cast("Gate", self.config.app).end()
        super().handle_exit(sig, frame)


class Gate:
    """Lets in who may come in, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    def end(self) -> None:
        """End the streams of updates."""
        self._console.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message["headers"],
                    *((key.lower().encode(), value.encode()) for key, value in HEADERS.items()),
                ]
            await send(message)

        if not self._console.access.is_named(request):
            refused = self._console.refused(request, 403, NOT_NAMED)
            await refused(scope, receive, send_with_headers)
            return
        # The path that the router sees. The one of `request.url` may be forged by a Host header.
        path = str(scope["path"])
        free = path.startswith("/static/") or (
            path == "/login" and bool(self._console.access.token)
        )
        if free or self._console.access.admits(request):
            await self._app(scope, receive, send_with_headers)
            return
        token = bool(self._console.access.token)
        why = "Show the token." if token else "This console does not know you."
        refused = self._console.refused(request, 401 if token else 403, why)
        await refused(scope, receive, send_with_headers)


def make_app(watch: Watch, access: Access) -> Gate:
    """Return the console as an ASGI application.

    Args:
        watch: what is shown; the application starts and closes it.
        access: who may see it.
    """
    console = Console(watch, access)
    app = Starlette(
        routes=[
            Route("/", console.locks),
            Route(f"/locks{JSON}", console.locks),
            Route("/lock", console.lock),
            Route(f"/lock{JSON}", console.lock),
            Route(f"/graph{JSON}", console.graph),
            Route(f"/clients{JSON}", console.clients),
            Route(f"/timeline{JSON}", console.timeline),
            Route("/graph", console.graph),
            Route("/clients", console.clients),
            Route("/timeline", console.timeline),
            Route("/events", console.events),
            Route("/release", console.confirm, methods=["GET"]),
            Route("/release", console.release, methods=["POST"]),
            Route("/login", console.login, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        lifespan=console.lifespan,
        exception_handlers={InterlockError: console.failed},
    )
    return Gate(app, console)


def _unknown(chosen: str, sort: str) -> str:
    """Return in words which filter or column does not exist; an empty text if both do.

    A program must not take all locks for those that it asked for.
    """
    if chosen and chosen not in FILTERS:
        return f"show must be one of {', '.join(FILTERS)}, not {chosen!r}"
    if sort and sort.removeprefix("-") not in COLUMNS:
        return f"sort must be one of {', '.join(COLUMNS)}, perhaps behind a -, not {sort!r}"
    return ""


def _turned(order: str, column: str) -> str:
    """Return the order that a click on *column* asks for: the other one if it is sorted by it.

    Figures begin with the most, and texts with the first.
    """
    first = column if column in ("name", "kind", "holder") else f"-{column}"
    other = column if first.startswith("-") else f"-{column}"
    return other if order == first else first


def _plain(told: object) -> Any:
    """Return dataclasses as what JSON can carry."""
    if isinstance(told, list):
        return [_plain(each) for each in cast("list[object]", told)]
    return asdict(told) if is_dataclass(told) and not isinstance(told, type) else told


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form, which is short."""
    body = b""
    try:
        async with asyncio.timeout(LONGEST_SENDING):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LONGEST_BODY:
                    return {}
    except TimeoutError:
        return {}
    fields = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    return {key: values[0] for key, values in fields.items()}


def _matches(info: LockInfo, search: str, chosen: str) -> bool:
    if chosen in FILTERS and not FILTERS[chosen](info):
        return False
    if not search:
        return True
    text = search.casefold()
    return text in info.name.casefold() or any(
        text in f"{each.holder} {who(each)}".casefold() for each in info.holders
    )


def _whole(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) < 10  # noqa: PLR2004
    return int(text) if is_number else 0
