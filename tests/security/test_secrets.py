"""Passwords are in no repr, error, traceback or log line."""

from __future__ import annotations

import contextlib
import logging
import traceback
from typing import TYPE_CHECKING

import pytest
from tests.faces.face_calls import call, told

from interlock import InterlockError

if TYPE_CHECKING:
    from tests.objects.awaited import Face

SECRET = "hunter2-and-more"
URLS = (
    *(f"redis://:{SECRET}@127.0.0.1:1", f"redis://alice:{SECRET}@127.0.0.1:1/3"),
    *(f"rediss://alice:{SECRET}@127.0.0.1:1", f"redis://127.0.0.1:1?password={SECRET}"),
    f"unix://alice:{SECRET}@/nonexistent/redis.sock",
    f"redis+cluster://alice:{SECRET}@127.0.0.1:1",
    f"redis+sentinel://alice:{SECRET}@127.0.0.1:1/mymaster?sentinel_password={SECRET}",
)


@pytest.mark.parametrize("url", URLS)
async def test_no_password_is_told(
    face: Face, url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client of a server that is not there tells no password, with its locals printed or not."""
    caplog.set_level(logging.DEBUG)
    client = face.module.connect(url, command_timeout=0.5, outage_timeout=0.1)
    lock = client.lock("name")
    texts = [repr(client), str(client), repr(lock)]
    with pytest.raises(InterlockError) as caught:
        await call(face, lock.acquire, timeout=0)
    texts += traceback.format_exception(caught.value)
    with contextlib.suppress(InterlockError):
        await told(client.close())
    out, err = capfd.readouterr()
    assert SECRET not in "".join((*texts, caplog.text, out, err))
