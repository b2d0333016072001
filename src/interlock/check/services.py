"""Which service a server is.

HELLO, INFO and the host's name tell it. A name alone proves little, so an unknown host is what INFO
says. Nothing is "tested" that this project's tests do not run on. The page
docs/reference/services.md tells of each service what differs there, and where that was read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from interlock.check.report import Row, Severity

if TYPE_CHECKING:
    from interlock.check.facts import Facts
    from interlock.check.report import Rows


class Service(NamedTuple):
    """One service.

    Attributes:
        name: what it is called.
        sign: a field of INFO, or else a regular expression of host names, that only it has.
        setting: what to set there; empty for nothing.
    """

    name: str
    sign: str
    setting: str = ""


HOSTED = (
    Service("ElastiCache Serverless", r"\.serverless\.[^.]+\.cache\.amazonaws\.com$"),
    Service("ElastiCache", r"\.cache\.amazonaws\.com(\.cn)?$", "maxmemory-policy noeviction"),
    Service("MemoryDB", r"\.memorydb\.[^.]+\.amazonaws\.com$"),
    Service("Upstash", r"\.upstash\.io$", "allow-key-locking"),
    Service("Alibaba Tair", r"\.(redis|tair)\.[^.]*\.?rds\.aliyuncs\.com$"),
    Service("Memorystore", r"\.(memorystore|redis)\.[^.]*\.?(goog|cloud\.google\.com)$"),
    Service("Redis Cloud", r"\.(redislabs|redis-cloud|rlrcp)\.com$"),
    Service("Azure", r"\.(redis\.cache\.windows|redis\.azure|redisenterprise\.cache\.azure)\.net$"),
    Service("Aiven", r"\.aivencloud\.com$"),
    Service("DigitalOcean", r"\.db\.ondigitalocean\.com$"),
    Service("Huawei DCS", r"\.dcs\.huaweicloud\.com$"),
)
FORKS = (
    Service("Dragonfly", "dragonfly_version"),
    Service("Kvrocks", "kvrocks_version"),
    Service("Garnet", "garnet_version", "--lua"),
    Service("KeyDB", "mvcc_depth", "active-replica no"),
)
VALKEY = Service("Valkey", "valkey_version")
REDIS = Service("Redis", "redis_version")


def service_of(facts: Facts) -> Service | None:
    """Return which service a server is; None if nothing tells it."""
    host = (facts.where.rpartition(":")[0] or facts.where).casefold()
    for each in HOSTED:
        if re.search(each.sign, host):
            return each
    for each in (*FORKS, VALKEY, REDIS):
        if each.sign in (facts.info or {}) or facts.server.casefold() == each.name.casefold():
            return each
    return None


def service(facts: Facts) -> Rows:
    """Look at which service this is."""
    found = service_of(facts)
    if found is None:
        return
    if found in (REDIS, VALKEY):
        yield Row(Severity.OK, f"{found.name}: locks are tested")
    else:
        yield Row(
            Severity.NOTE,
            f"{found.name}: locks are expected to work, and not tested here",
            (f"set {found.setting}; " if found.setting else "")
            + "interlock doctor --try shows what it does; docs/reference/services.md says why",
        )
