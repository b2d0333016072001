"""Which service a server is, what works there, and where its documents say so.

Theory. Services that speak Redis' protocol differ in what a script may do. HELLO, INFO and the
host's name tell which one it is. A name alone proves little, so an unknown host is what INFO says.

Nothing is "tested" here that this project's tests do not run on. "Expected" was read in documents
or source. The page docs/reference/services.md is a table of the same rows; a test compares them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from interlock.check.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from interlock.check.facts import Facts
    from interlock.check.requirements import Requirements

OK, NOTE, WARNING, ERROR = Severity
Grade = Literal["tested", "expected", "impossible"]


@dataclass(frozen=True, slots=True)
class Service:
    """One service, or one way to run it.

    Attributes:
        name: what it is called.
        grade: whether locks were tested on it, are expected to work, or cannot.
        rule: what differs from Redis there.
        setting: what to set; empty for nothing.
        document: where the rule was read; empty where nothing differs.
        hosts: a regular expression of its host names; empty for none.
        fields: fields of INFO that only it has.
    """

    name: str
    grade: Grade
    rule: str
    setting: str = ""
    document: str = ""
    hosts: str = ""
    fields: tuple[str, ...] = ()


_AWS = "https://docs.aws.amazon.com/"
SERVICES = (
    Service("Redis", "tested", "none"),
    Service("Valkey", "tested", "none", fields=("valkey_version",)),
    Service(
        "Dragonfly",
        "expected",
        "CLUSTER INFO always tells epoch 1, so fencing tokens follow the clock",
        "",
        "https://www.dragonflydb.io/docs/managing-dragonfly/scripting",
        fields=("dragonfly_version",),
    ),
    Service(
        "Kvrocks",
        "expected",
        "scripts have no PUBSUB: each release is announced",
        "",
        "https://github.com/apache/kvrocks/pull/3139",
        fields=("kvrocks_version",),
    ),
    Service(
        "Garnet",
        "expected",
        "scripts are off by default; SPUBLISH is refused in them: PUBLISH is used",
        "--lua",
        "https://microsoft.github.io/garnet/docs/commands/scripting-commands",
        fields=("garnet_version",),
    ),
    Service(
        "KeyDB",
        "expected",
        "scripts are those of Redis; an active replica takes writes while it is cut off, and then "
        "two clients hold one lock",
        "active-replica no",
        "https://docs.keydb.dev/docs/active-rep",
        fields=("keydb_version", "mvcc_depth"),
    ),
    Service(
        "ElastiCache Serverless",
        "expected",
        "TIME was refused in scripts in 2024: a key tells the time then; a full cache evicts locks "
        "(volatile-lru)",
        "",
        f"{_AWS}AmazonElastiCache/latest/dg/RedisConfiguration.html",
        hosts=r"\.serverless\.[^.]+\.cache\.amazonaws\.com$",
    ),
    Service(
        "ElastiCache",
        "expected",
        "CONFIG is refused: look at eviction in the parameter group",
        "maxmemory-policy noeviction",
        f"{_AWS}AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html",
        hosts=r"\.cache\.amazonaws\.com(\.cn)?$",
    ),
    Service(
        "MemoryDB",
        "expected",
        "CONFIG is refused",
        "",
        f"{_AWS}memorydb/latest/devguide/restrictedcommands.html",
        hosts=r"\.memorydb\.[^.]+\.amazonaws\.com$",
    ),
    Service(
        "Upstash",
        "expected",
        "scripts take a global lock, unless the setting lets scripts of other keys run beside them",
        "allow-key-locking",
        "https://upstash.com/docs/redis/features/key-locking",
        hosts=r"\.upstash\.io$",
    ),
    Service(
        "Alibaba Tair",
        "expected",
        "in proxy mode each key and command of a script must be written literally, as ours are; no "
        "WAIT",
        "script_check_enable 0 (slows scaling), if it refuses a script all the same",
        "https://help.aliyun.com/document_detail/92942.htm",
        hosts=r"\.(redis|tair)\.[^.]*\.?rds\.aliyuncs\.com$",
    ),
    Service(
        "Memorystore",
        "expected",
        "CONFIG is refused; IAM passwords change",
        "",
        "https://docs.cloud.google.com/memorystore/docs/valkey/supported-commands",
        hosts=r"\.(memorystore|redis)\.[^.]*\.?(goog|cloud\.google\.com)$",
    ),
    Service(
        "Redis Cloud",
        "expected",
        "CLUSTER INFO needs the OSS cluster API",
        "",
        "https://redis.io/docs/latest/operate/rs/references/compatibility/commands/cluster/",
        hosts=r"\.(redislabs|redis-cloud|rlrcp)\.com$",
    ),
    Service(
        "Azure",
        "expected",
        "CLUSTER INFO needs the OSS cluster API",
        "",
        "https://redis.io/docs/latest/operate/rs/references/compatibility/commands/cluster/",
        hosts=r"\.(redis\.cache\.windows\.net|redis\.azure\.net|redisenterprise\.cache\.azure\.net)$",
    ),
    Service(
        "Aiven",
        "expected",
        "CLUSTER, CONFIG, COMMAND and ACL are refused",
        "",
        "https://aiven.io/docs/products/valkey/reference/restricted-commands",
        hosts=r"\.aivencloud\.com$",
    ),
    Service(
        "DigitalOcean",
        "expected",
        "Valkey, by TLS with a public certificate; no document tells what it refuses",
        "",
        "https://docs.digitalocean.com/products/databases/valkey/how-to/connect",
        hosts=r"\.db\.ondigitalocean\.com$",
    ),
    Service(
        "Heroku",
        "expected",
        "TLS alone, with a certificate that nobody has signed; INFO and the host's name do not "
        "tell it",
        "ssl_cert_reqs=none in the URL",
        "https://devcenter.heroku.com/articles/connecting-heroku-redis",
    ),
    Service(
        "OCI Cache, sharded",
        "impossible",
        "EVAL is refused",
        "use a cache that is not sharded",
        "https://docs.oracle.com/iaas/Content/ocicache/restrictedcommands.htm",
    ),
    Service(
        "Huawei DCS, proxy cluster",
        "expected",
        "each script needs a key, and the first one routes it",
        "",
        "https://support.huaweicloud.com/intl/en-us/productdesc-dcs/dcs-pd-200813004.html",
        hosts=r"\.dcs\.huaweicloud\.com$",
    ),
)
"""One row for each; the first one that matches counts."""
GRADES = {"tested": OK, "expected": NOTE, "impossible": ERROR}


def service_of(where: str, info: Mapping[str, object], server: str = "") -> Service:
    """Return which service the server at *where* is.

    Args:
        where: ``host:port``.
        info: INFO; empty where it was refused.
        server: what HELLO calls the server.
    """
    host = where.rpartition(":")[0].casefold() or where.casefold()
    for each in SERVICES:
        if each.hosts and re.search(each.hosts, host):
            return each
    for each in SERVICES:
        named = server.casefold() == each.name.casefold() and each.name != "Redis"
        if named or any(field in info for field in each.fields):
            return each
    return SERVICES[0]


def service(facts: Facts, requirements: Requirements) -> Iterator[Finding]:
    """Tell which service this is, and what works there."""
    del requirements
    if facts.info is None and not facts.server and service_of(facts.where, {}) is SERVICES[0]:
        return
    found = service_of(facts.where, facts.info or {}, facts.server)
    text = f"{found.name}: locks are {_GRADE_WORDS[found.grade]}"
    if found.rule != "none":
        text = f"{text}; {found.rule}"
    advice = f"set {found.setting}" if found.setting else ""
    if found.document:
        advice = f"{advice}; see {found.document}" if advice else f"see {found.document}"
    yield Finding("service", GRADES[found.grade], text, advice)


_GRADE_WORDS = {
    "tested": "tested",
    "expected": "expected to work, and not tested here",
    "impossible": "impossible",
}
