"""The scripts of the barrier."""

from __future__ import annotations

from typing import Final

from interlock._core.scripts.replies import counts, number_or_nil
from interlock._core.scripts.source import Variants, load

ARRIVE: Final = Variants("barrier_arrive", number_or_nil)
END: Final = Variants("barrier_end", number_or_nil)
QUERY: Final = load("barrier_query", counts)
