"""Fixtures of the event tests: both faces on a real server."""

from __future__ import annotations

from tests.lock.lock_like import Kind, stage_of

EVENT = Kind("event", lambda client, name: client.event(name))

stage = stage_of(EVENT)
