"""Which service a server is.

HELLO, INFO and the host's name tell it. Nothing is "tested" that this project's tests do not run
on. docs/reference/services.md tells what differs in each service, and where that was read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from interlock.check.facts import Facts


class Service(NamedTuple):
    """One service, with a field of INFO or a pattern of host names that only it has as a sign."""

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
TESTED = (Service("Valkey", "valkey_version"), Service("Redis", "redis_version"))


def service_of(facts: Facts) -> Service | None:
    """Return which service a server is; None if nothing tells it."""
    host = (facts.where.rpartition(":")[0] or facts.where).casefold()
    for each in HOSTED:
        if re.search(each.sign, host):
            return each
    for each in (*FORKS, *TESTED):
        if each.sign in facts.info or facts.server.casefold() == each.name.casefold():
            return each
    return None
