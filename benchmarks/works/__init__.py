"""The works: a new one is a module here and a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.works import (
    cluster,
    contended,
    fair,
    family,
    fleet,
    handoff,
    many,
    quorum,
    rivals,
    scale,
    scenarios,
    startup,
    uncontended,
)

if TYPE_CHECKING:
    from benchmarks.work import Work

_ALL: tuple[Work, ...] = (
    uncontended.WORK,
    handoff.WORK,
    contended.WORK,
    fleet.WORK,
    family.OBJECTS,
    family.WANTED,
    fair.WORK,
    quorum.WORK,
    cluster.WORK,
    many.WORK_HOLDS,
    many.WORK_WAITERS,
    startup.WORK,
    scale.WORK,
    rivals.PAIRS,
    rivals.HANDOFF,
    rivals.TURNS,
    scenarios.WORK,
)
WORKS = {work.name: work for work in _ALL}
