"""The scripts of the group lock; *fields* stand for its values (`highway_hash.field`)."""

from __future__ import annotations

from typing import Final

from interlock._core.scripts.locks import status
from interlock._core.scripts.replies import freed, grant_or_left, kept
from interlock._core.scripts.source import Variants, load

GROUP_ACQUIRE: Final = load("group_acquire", grant_or_left)
GROUP_RELEASE: Final = Variants("group_release", freed)
GROUP_RENEW: Final = load("group_renew", kept)
GROUP_QUERY: Final = load("group_query", status)
