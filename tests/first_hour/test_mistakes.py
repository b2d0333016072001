"""The mistakes of the first hour: what their author reads is enough to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.first_hour.commands import COMMANDS
from tests.first_hour.connecting import CONNECTING
from tests.first_hour.locks import LOCKS
from tests.first_hour.mistake import LONGEST, Mistake, lines_of_ours, read
from tests.first_hour.objects import OBJECTS
from tests.first_hour.tasks import TASKS

if TYPE_CHECKING:
    from pathlib import Path

TABLE = [*LOCKS, *OBJECTS, *TASKS, *CONNECTING, *COMMANDS]


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_told(mistake: Mistake, redis_url: str, tmp_path: Path) -> None:
    """The author of a mistake reads what is wrong and what to write, in a few lines."""
    code, text = read(mistake, tmp_path, redis_url, {})
    assert code == mistake.code, text
    for part in mistake.says:
        assert part in text
    for part in mistake.never:
        assert part not in text
    assert lines_of_ours(text) <= LONGEST, text
