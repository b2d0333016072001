"""Who owns a lock in web frameworks: requests that arrive one after the other, in real servers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.needs import ROOT
from tests.support.address import free_port
from tests.support.patience import wait_until

import interlock

COUNTS = """
import asyncio, warnings
warnings.simplefilter("ignore")
now = over = served = 0
@app.get("/counts")
async def counts(): return [over, served]
async def stay():
    global now, over, served
    over += now > 0; now += 1
    await asyncio.sleep(.25)
    now -= 1; served += 1
"""
DJANGO = """
import asyncio, json, warnings, interlock, django
from django.conf import settings
warnings.simplefilter("ignore")
settings.configure(
    ROOT_URLCONF=__name__, MIDDLEWARE=[__name__ + ".Middleware"], ALLOWED_HOSTS=["*"], SECRET_KEY="x"
)
django.setup()
from django.http import HttpResponse
from django.urls import path
from django.core.asgi import get_asgi_application
client = interlock.connect({url!r}); now = over = served = 0
class Middleware:
    def __init__(self, get_response): self.get_response = get_response
    def __call__(self, request):
        if request.path == "/counts": return self.get_response(request)
        with client.lock("x", timeout=20): return self.get_response(request)
async def view(request):
    global now, over, served
    over += now > 0; now += 1
    await asyncio.sleep(.2)
    now -= 1; served += 1
    return HttpResponse("ok")
def nested(request):
    global served
    with client.lock("x", timeout=2): served += 1
    return HttpResponse("nested")
def counts(request): return HttpResponse(json.dumps([over, served]))
urlpatterns = [path("", view), path("nested", nested), path("counts", counts)]
app = get_asgi_application()
"""
PAGE = (ROOT / "docs/how-to/owners.md").read_text().partition("```python\n")[2]
DOCUMENTED = (
    PAGE.partition("```")[0]
    .replace('os.environ.get("INTERLOCK_URL")', "{url!r}")
    .replace("@app.post", "@app.get")
    .replace("return", "await stay()\n    return")
)
SERVED = {
    "documented": (DOCUMENTED + COUNTS, "/report"),
    "django middleware": (DJANGO, "/"),
    "django view that nests": (DJANGO, "/nested"),
}


def outcome(
    tmp_path: Path, url: str, program: str, path: str, count: int
) -> tuple[int, Counter[int]]:
    """Serve *program*, and ask for *path* again and again; return the overlaps and the statuses."""
    _ = (tmp_path / "app.py").write_text(program.replace("{url!r}", repr(url)))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--log-level", "critical", "--lifespan", "off"], cwd=tmp_path
    )
    base = f"http://127.0.0.1:{port}"

    def counts() -> list[int]:
        found: list[int] = httpx.get(f"{base}/counts", timeout=10).json()
        return found

    def answers() -> bool:
        try:
            return bool(counts())
        except httpx.TransportError:
            return False

    async def ask() -> Counter[int]:
        async with httpx.AsyncClient(timeout=60) as client:

            async def one(number: int) -> int:
                await asyncio.sleep(number * 0.1)
                return (await client.get(base + path)).status_code

            return Counter(await asyncio.gather(*map(one, range(count))))

    try:
        wait_until(answers, 60, "the server answers")
        statuses = asyncio.run(ask())
        wait_until(lambda: counts()[1] == count, 60, "all work is done")
        return counts()[0], statuses
    finally:
        server.kill()
        _ = server.wait()


@pytest.mark.parametrize("case", SERVED)
def test_requests_exclude_each_other_and_all_are_served(
    tmp_path: Path, redis_url: str, case: str
) -> None:
    """Requests exclude each other and all are served."""
    program, path = SERVED[case]
    assert outcome(tmp_path, redis_url, program, path, 6) == (0, Counter({200: 6}))


@pytest.mark.parametrize("sensitive", [True, False])
def test_asgiref(redis_url: str, sensitive: bool) -> None:
    """Requests share one thread, where the second cannot wait, or they wait in a pool."""
    from contextlib import ExitStack

    from asgiref.sync import sync_to_async

    inside: list[int] = []
    errors: list[type[BaseException]] = []
    over = 0

    async def request(number: int) -> None:
        nonlocal over
        await asyncio.sleep(number * 0.1)
        stack = ExitStack()
        enter = sync_to_async(stack.enter_context, thread_sensitive=sensitive)
        try:
            _ = await enter(client.lock("x"))
        except interlock.ReentryError as error:
            errors.append(type(error))
            return
        over += len(inside) > 0
        inside.append(number)
        if sensitive:

            def nested() -> int:
                with client.lock("x", timeout=1) as hold:
                    return hold.depth

            assert await sync_to_async(nested, thread_sensitive=True)() == 2
        await asyncio.sleep(0.4)
        inside.remove(number)
        await sync_to_async(stack.close, thread_sensitive=sensitive)()

    async def main() -> None:
        _ = await asyncio.gather(*map(request, range(3)))

    with interlock.connect(redis_url) as client:
        asyncio.run(main())
        assert not client.lock("x").locked()
    assert over == 0
    assert len(errors) == (2 if sensitive else 0)


def test_asgirefs_way_back_into_a_block(redis_url: str) -> None:
    """Sync code that async code calls inside of a block is in the block."""
    from asgiref.sync import async_to_sync, sync_to_async

    with interlock.connect(redis_url) as client:

        def save() -> int:
            with client.lock("x", timeout=1) as hold:
                return hold.depth

        def other() -> None:
            with client.lock("y"):
                pass

        async def send() -> int:
            await sync_to_async(other, thread_sensitive=False)()
            return await sync_to_async(save)()

        with client.lock("x"):
            assert async_to_sync(send)() == 2
            assert save() == 2
