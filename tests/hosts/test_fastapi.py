"""Locks in FastAPI and Starlette: in process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2 as httpx
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, Request
from starlette.testclient import TestClient
from tests.hosts.pages import write_programs

import interlock
from interlock.asyncio import Permit
from interlock.fastapi import Limited, Locked, client, lifespan

ONE_REPORT = Limited("reports:{id}", 1, timeout=0.05)


def load(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch, url: str) -> Any:
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
