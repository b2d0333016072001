"""The scripts of the barrier."""

from __future__ import annotations

from typing import Final

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import counts, number_or_nil

ARRIVE: Final = Variants("barrier_arrive", number_or_nil)
END: Final = Variants("barrier_end", number_or_nil)
QUERY: Final = load("barrier_query", counts)
