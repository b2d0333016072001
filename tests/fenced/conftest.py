"""Fixtures of the fenced lock's tests: both faces on a real server that knows every script."""

from __future__ import annotations

from tests.lock.lock_like import kind_of, stage_of

FENCED = kind_of("fenced")
stage = stage_of(FENCED)
