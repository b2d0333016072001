"""The works: a new one is a module here and a line below."""

from __future__ import annotations

from benchmarks.works import contended, handoff, uncontended

WORKS = {module.WORK.name: module.WORK for module in (uncontended, handoff, contended)}
