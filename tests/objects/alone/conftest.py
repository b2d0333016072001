"""Fixtures of what each object alone promises: the two semaphores on both faces, on a real server."""

from __future__ import annotations

from tests.objects.awaited import stage_of
from tests.objects.kinds import Kind

PLAIN = Kind("semaphore", lambda client, name, **options: client.semaphore(name, **options))
LEASED = Kind("leased", lambda client, name, **options: client.leased_semaphore(name, **options))

plain = stage_of(PLAIN)
leased = stage_of(LEASED)
