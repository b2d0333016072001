"""Fixtures of the election tests: both faces on a real server."""

from __future__ import annotations

from tests.lock.lock_like import Kind, stage_of

ELECTION = Kind("election", lambda client, name, **options: client.election(name, **options))

stage = stage_of(ELECTION)
