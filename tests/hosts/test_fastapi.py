"""Locks in FastAPI and Starlette: in process, and under load in the servers that people use."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import httpx2 as httpx
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request
from starlette.testclient import TestClient
from tests.hosts.pages import write_programs
from tests.support.address import free_port
from tests.support.patience import wait_until

import interlock
from interlock.asyncio import Permit  # noqa: TC001 - FastAPI reads it
from interlock.fastapi import Limited, Locked, client, lifespan

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    import redis
    from tests.hosts.host_process import Hosts

SOON = 30.0

# Each request reads a number, waits, and writes it back: together with another, one would be lost.
COUNTING_APP = """
import asyncio, os
import redis.asyncio
from fastapi import Depends, FastAPI
from interlock.fastapi import Locked, lifespan

URL = os.environ["INTERLOCK_URL"]
app = FastAPI(lifespan=lifespan(URL, lease=1))
store = redis.asyncio.from_url(URL)

@app.post("/count/{id}", dependencies=[Depends(Locked("count:{id}", timeout=30))])
async def count(id: str) -> int:
    before = int(await store.get(f"number:{id}") or 0)
    await store.ping()
    await store.set(f"number:{id}", before + 1)
    return os.getpid()

@app.post("/hang/{id}", dependencies=[Depends(Locked("count:{id}", timeout=30))])
async def hang(id: str) -> None:
    await store.set("hanging", os.getpid())
    await asyncio.Event().wait()
"""
ONE_REPORT = Limited("reports:{id}", 1, timeout=0.05)
SERVERS = {
    "uvicorn": ("uvicorn", "counting:app", "--workers", "2", "--log-level", "warning", "--port"),
    "gunicorn": ("gunicorn", "counting:app", "-w", "2", "-k", "uvicorn_worker.UvicornWorker", "-b"),
}


def load(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch, url: str) -> Any:
    """Return the application of a program of the how-to."""
    write_programs("fastapi.md", directory)
    monkeypatch.setenv("INTERLOCK_URL", url)
    spec = importlib.util.spec_from_file_location(name, directory / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module.app


def test_fastapi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """A request holds the lock of its path; another one waits, or is answered as was asked for."""
    app = load(tmp_path, "app", monkeypatch, redis_url)
    with interlock.connect(redis_url) as other, TestClient(app) as visitor:
        assert visitor.post("/orders/42/ship").json() == {"times": 1}
        with other.lock("reports"), other.lock("orders:43"):
            refused = visitor.post("/reports")
            assert refused.status_code == 409
            assert refused.json() == {"detail": "'reports' is in use"}
            assert refused.headers["retry-after"] == "1"
            assert visitor.get("/orders/43").json() == {"busy": True}
            assert visitor.post("/orders/42/ship").json() == {"times": 2}
        assert visitor.post("/reports").json() == "written"
        assert visitor.get("/orders/43").json() == {"busy": False}


def test_starlette(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """An endpoint of Starlette holds the lock of its path, and is answered if it is taken."""
    app = load(tmp_path, "starlette_app", monkeypatch, redis_url)
    with interlock.connect(redis_url) as other, TestClient(app) as visitor:
        assert visitor.post("/orders/42/ship").text == "shipped"
        with other.lock("orders:42"):
            assert visitor.post("/orders/42/ship").status_code == 423


@pytest.mark.parametrize(("scope", "held"), [("request", True), ("function", False)])
def test_release(redis_url: str, scope: Literal["function", "request"], held: bool) -> None:
    """The scope decides whether the lock outlives the response and its background tasks."""
    app = FastAPI(lifespan=lifespan(redis_url))
    seen: list[bool] = []

    @app.get("/", dependencies=[Depends(Locked("it"), scope=scope)])
    async def it(request: Request, behind: BackgroundTasks) -> None:
        async def look() -> None:
            seen.append(await client(request).lock("it").owned())

        behind.add_task(look)

    with interlock.connect(redis_url) as other, TestClient(app) as visitor:
        assert visitor.get("/").status_code == 200
        assert seen == [held]
        assert not other.lock("it").locked()


def test_a_limit(redis_url: str) -> None:
    """The limit of a path lets n requests in; another one waits, and is then answered by 503."""
    app = FastAPI(lifespan=lifespan(redis_url))

    @app.get("/{id}")
    async def report(id: str, permit: Annotated[Permit, Depends(ONE_REPORT)]) -> bool:  # noqa: A002
        return permit.valid

    with interlock.connect(redis_url) as other, TestClient(app) as visitor:
        assert visitor.get("/{a}").json()
        with other.limited("reports:{{a}}", 1):
            refused = visitor.get("/{a}")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert visitor.get("/b").json()
        assert visitor.get("/{a}").json()
    with pytest.raises(ValueError, match="must be 1 to"):
        Limited("reports", 0)


def test_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redis_url: str) -> None:
    """A second click is refused, a busy payment service too, and a paid cart is not paid again."""
    app = load(tmp_path, "shop", monkeypatch, redis_url)
    with interlock.connect(redis_url) as other, TestClient(app) as visitor:
        with other.lock("cart:7"):
            assert visitor.post("/carts/7/checkout").status_code == 409
        with other.limited("payments", 2) as _, other.limited("payments", 2):
            assert visitor.post("/carts/7/checkout").status_code == 503
        assert visitor.post("/carts/7/checkout").json() == {"paid": "7"}
        assert visitor.post("/carts/7/checkout").status_code == 410


def test_mistakes_are_explained(redis_url: str) -> None:
    """A missing lifespan and a missing path parameter are errors that say what to do."""
    app = FastAPI()

    @app.get("/", dependencies=[Depends(Locked("it:{id}"))])
    async def it() -> None: ...

    with pytest.raises(interlock.ConfigError, match="the path has no parameters"):
        TestClient(app).get("/")
    app.routes.pop()
    app.get("/", dependencies=[Depends(Locked("it"))])(it)
    with pytest.raises(interlock.ConfigError, match="no interlock client"):
        TestClient(app).get("/")


@pytest.mark.parametrize("program", SERVERS)
async def test_load(program: str, hosts: Hosts, redis_client: redis.Redis) -> None:
    """Under load workers exclude each other, and a killed one frees its lock."""
    (hosts.directory / "counting.py").write_text(COUNTING_APP)
    port = free_port()
    where = str(port) if program == "uvicorn" else f"127.0.0.1:{port}"
    process = hosts.start(*SERVERS[program], where)
    limits = httpx.Limits(max_connections=40, max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", timeout=SOON, limits=limits
    ) as client:
        await serving(client, process, hosts)
        redis_client.delete("number:a", "number:b")
        answers = await asyncio.gather(
            *(client.post(f"/count/{'ab'[number % 2]}") for number in range(200))
        )
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json() for answer in answers}) == 2
        assert [int(redis_client.get(f"number:{each}") or 0) for each in "ab"] == [100, 100]

        hanging = asyncio.create_task(client.post("/hang/a"))
        await asyncio.to_thread(
            wait_until, lambda: redis_client.exists("hanging"), SOON, "it hangs"
        )
        os.kill(int(redis_client.get("hanging") or 0), signal.SIGKILL)
        with pytest.raises(httpx.HTTPError):
            await hanging
        # The server starts another worker, which may take a while to answer.
        assert (await retried(client, "/count/a")).status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(SOON) in (0, -signal.SIGTERM)
    wait_until(lambda: not redis_client.exists("count:a", "count:b"), SOON, "the locks are free")


async def serving(
    client: httpx.AsyncClient, process: subprocess.Popen[bytes], hosts: Hosts
) -> None:
    """Wait until both workers of the server answer."""
    seen: set[int] = set()
    while len(seen) < 2:
        assert process.poll() is None, hosts.log()
        seen.add((await retried(client, f"/count/{'ab'[len(seen)]}")).json())


async def retried(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """Return the first answer of a server that is starting."""
    while True:
        try:
            return await client.post(path)
        except httpx.TransportError:
            await asyncio.sleep(0.05)  # between two questions


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "orders:{"}, "is no template for a name"),
        ({"name": ""}, "must not be empty"),
        ({"name": "a", "timeout": -3}, "timeout must be"),
        ({"name": "a", "lease": 0}, "lease must be"),
        ({"name": "a", "on_timeout": 200}, "on_timeout must be"),
    ],
)
def test_a_dependency_is_checked_when_it_is_made(arguments: dict[str, Any], words: str) -> None:
    """`Locked` refuses at once what could never work."""
    with pytest.raises(interlock.ConfigError, match=words):
        Locked(**arguments)


@pytest.mark.parametrize(
    ("url", "options"), [("http://h", {}), ("redis://h/x", {}), (None, {"lease": 0})]
)
def test_a_lifespan_is_checked_when_it_is_made(url: str | None, options: Any) -> None:
    """`lifespan` refuses at once a URL or option that cannot work."""
    with pytest.raises(interlock.ConfigError):
        lifespan(url, **options)


async def test_a_transport_that_hands_no_state_to_requests(redis_url: str) -> None:
    """Tests by httpx find the client of the lifespan, whose state its transport leaves out."""
    app = FastAPI(lifespan=lifespan(redis_url))
    app.get("/{id}", dependencies=[Depends(Locked("it:{id}"))])(lambda: "done")
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as browser,
    ):
        assert (await browser.get("/7")).status_code == 200
