"""Fixtures of the barrier tests: both faces on a real server."""

from __future__ import annotations

from tests.lock.lock_like import Kind, stage_of

BARRIER = Kind(
    "barrier",
    lambda client, name, parties=3, **options: client.barrier(name, parties, **options),
)

stage = stage_of(BARRIER)
