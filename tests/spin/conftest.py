"""Fixtures of the spin lock's tests: both faces on a real server that knows every script."""

from __future__ import annotations

from tests.lock.lock_like import kind_of, stage_of

SPIN = kind_of("spin")
stage = stage_of(SPIN)
