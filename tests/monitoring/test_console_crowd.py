"""The console with many open tabs."""

from __future__ import annotations

from tests.monitoring import tabs
from tests.monitoring.serving import served


async def test_a_hundred_tabs_show_a_new_lock(redis_url: str) -> None:
    """A hundred open tabs all show a new lock."""
    with served(redis_url) as url:
        assert len(await tabs.delays(url, redis_url)) == tabs.TABS
