"""Fixtures of the group lock's tests: both faces on a real server that knows every script."""

from __future__ import annotations

from tests.lock.lock_like import kind_of, stage_of

GROUP = kind_of("group")
stage = stage_of(GROUP)
