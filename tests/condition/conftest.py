"""Fixtures of the condition tests: both faces on a real server."""

from __future__ import annotations

from tests.lock.lock_like import Kind, stage_of

CONDITION = Kind(
    "condition", lambda client, name, **options: client.condition(client.lock(name), **options)
)

stage = stage_of(CONDITION)
