"""Who has it: acquire and release of every lock-like, on both faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS

from interlock import ReentryError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if not kind.reentrant],
    indirect=True,
    ids=lambda kind: kind.name,
)
async def test_one_that_is_not_reentrant_refuses_without_asking(
    proxy: FaultProxy, stage: Stage
) -> None:
    """Taken again by its owner, it raises at once, changes nothing and sends nothing."""
    lock, owner = stage.lock(stage.client(proxy.url())), stage.owner()
    await owner.do(lock.acquire)
    before = stage.redis.dump("name"), stage.left_behind()
    proxy.clear_record()
    with pytest.raises(ReentryError):
        await owner.do(lock.acquire)
    assert proxy.record == []
    assert (stage.redis.dump("name"), stage.left_behind()) == before
    await owner.do(lock.release)
