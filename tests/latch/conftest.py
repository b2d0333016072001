"""Fixtures of the latch tests: both faces on a real server."""

from __future__ import annotations

from tests.lock.lock_like import Kind, stage_of

LATCH = Kind("latch", lambda client, name, **options: client.count_down_latch(name, **options))

stage = stage_of(LATCH)
