"""Calls of a method on either face."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from tests.objects.awaited import Face


async def told(result: Any) -> Any:
    """Return what a call of either face comes to."""
    return await result if inspect.isawaitable(result) else result


async def call(face: Face, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a method where its face is used: in the event loop, or in a thread."""
    if face.is_async:
        return await told(function(*args, **kwargs))
    return await asyncio.to_thread(function, *args, **kwargs)
