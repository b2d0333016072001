"""The torture run in its short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.torture import Torture

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(240)
def test_nothing_is_given_out_twice_or_lost(need_java: None, tmp_path: Path) -> None:
    """Ten seconds of everything at once, with pauses and kills, leave no fault.

    ``python -m tests.interop.torture`` does more.
    """
    torture = Torture(seed=1, seconds=10, logs=tmp_path)
    assert torture.run() == []
    assert sum(torture.done[f"{language} lock got"] for language in ("java", "sync", "asyncio"))
