"""What a URL may say, and what becomes of one that says something else."""

from __future__ import annotations

import resource
import time
import traceback
from typing import TYPE_CHECKING

import pytest
from tests.support.faults import command, swallow_reply

from interlock import ConfigError, Options
from interlock._links.endpoint import Endpoint
from interlock._links.urls import open_url

if TYPE_CHECKING:
    from tests.objects.awaited import Face, Stage
    from tests.support.proxy import FaultProxy

SECRET = "hush"


@pytest.mark.parametrize(
    "url",
    [
        *(f"redis://:{SECRET}@localhost:abc", f"redis://:{SECRET}@localhost:99999"),
        *(f"redis://:{SECRET}@localhost:-1", f"redis://:{SECRET}\N{ACCOUNT OF}@localhost"),
        *(f"redis://:{SECRET}/x@localhost", f"redis://user:{SECRET}#x@localhost"),
        *(f"redis://:{SECRET}@localhost/orders", f"redis://:{SECRET}@localhost/-1"),
        f"redis://:{SECRET}@localhost?db=abc",
        f"redis://localhost?password={SECRET}&no_such_option=1",
        f"redis://localhost?no_such_option={SECRET}",
        f"redis://localhost?password={SECRET}&port=abc",
        f"redis://localhost?password={SECRET}&ssl_ca_certs=/ca.pem",
        f"redis://localhost?password={SECRET}&socket_timeout=abc",
        f"redis://localhost?password={SECRET}&socket_timeout=0",
        f"redis://localhost?password={SECRET}&socket_connect_timeout=-1",
        f"redis://localhost?password={SECRET}&max_connections=0",
        f"redis://localhost?password={SECRET}&max_connections=many",
        f"rediss://:{SECRET}@localhost?ssl_cert_reqs=whatever",
        f"rediss://:{SECRET}@localhost?ssl_include_verify_flags=NONSENSE",
        *(f"unix://:{SECRET}@/path?no_such_option=1", f"unix://:{SECRET}@"),
        *(f"redis+sentinel://:{SECRET}@a:26379", f"redis+sentinel://:{SECRET}@a:26379/"),
        *(f"redis+sentinel://:#{SECRET}@a:26379/4", f"redis+sentinel://a:1#{SECRET}@a:26379"),
        *(f"redis+sentinel://:{SECRET}@a,,b/mymaster", f"redis+sentinel://:{SECRET}@a:x/mymaster"),
        f"redis+sentinel://:{SECRET}@a,b:99999/mymaster",
        f"redis+sentinel://:{SECRET}@a/mymaster/orders",
        f"redis+sentinel://:{SECRET}@a/mymaster/-1",
        f"redis+sentinel://a/mymaster?password={SECRET}&no_such_option=1",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_no_such_option=1",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_ssl=perhaps",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_ssl_ca_certs=/ca.pem",
        *(f"redis+cluster://:{SECRET}@localhost:1/one", f"redis+cluster://:{SECRET}@localhost:1,"),
        f"redis+cluster://:{SECRET}@localhost:1?nonsense=1",
        f"redis+cluster://user:{SECRET}@localhost:x",
    ],
)
def test_a_url_that_cannot_work_is_refused(face: Face, url: str) -> None:
    """A bad port, path or parameter raises ConfigError at once.

    Neither the error nor its causes show the password.
    """
    with pytest.raises(ConfigError) as caught:
        face.module.connect(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


SCHEMES = "redis://, rediss://, unix://"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", SCHEMES),
        ("localhost", SCHEMES),
        ("localhost:6379", SCHEMES),
        ("//localhost", SCHEMES),
        ("http://localhost", SCHEMES),
        (f"htp://user:{SECRET}@localhost", SCHEMES),
        ("redis//localhost", SCHEMES),
        ("redis://one:6379,two:6379/0", r"several addresses; .*redis\+cluster://.*sentinel"),
        ("rediss://me:a,b@one,two", r"several addresses; .*redis\+cluster://.*sentinel"),
        (f"sentinel://:{SECRET}@a:26379;sentinel://:{SECRET}@b:26379", "commas between them"),
        ("redis+sentinel://a:26379;b:26379/mymaster", "commas between them"),
        (f"redis+sentinel://:{SECRET}@a,:{SECRET}2@b/mymaster", "sentinel_password"),
        (f"redis+sentinel://a,:{SECRET}@b/mymaster", "one user and password"),
        (f"redis+cluster://a:1,user:{SECRET}@b:2", "one user and password"),
        ("redis://localhost?ssl_cert_reqs=none", "write rediss in place of redis"),
        ("redis+sentinel://a/mymaster?ssl_ca_certs=/ca.pem", "write rediss in place of redis"),
        ("rediss://localhost?ssl_cert_reqs=CERT_NONE", "none, optional or required"),
    ],
)
def test_what_is_often_written_has_its_remedy(face: Face, url: str, says: str) -> None:
    """Without a known scheme, or with lists and options as other libraries take them.

    ConfigError says what to write. No host of a list is left out in silence.
    """
    with pytest.raises(ConfigError, match=says) as caught:
        face.module.connect(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_commas_in_a_password_are_no_list(face: Face) -> None:
    """A password may have commas, before several hosts too."""
    assert face.module.connect("redis://me:a,b@one/0") is not None
    client = face.module.connect("redis+sentinel://user:a,b@a,b/mymaster")
    assert "mymaster (Sentinels a:26379, b:26379)" in repr(client)


def test_an_unknown_option_is_refused(face: Face) -> None:
    """A keyword that is no option raises ConfigError, which names those that there are."""
    with pytest.raises(ConfigError, match=r"'leese'.*lease"):
        face.module.connect("redis://localhost", leese=1)


async def test_parameters_of_the_query_are_obeyed(stage: Stage, proxy: FaultProxy) -> None:
    """``socket_timeout`` bounds the wait for a reply, and ``client_name`` names the connections."""
    proxy.on_request(command("EVALSHA", nth=1), swallow_reply)
    url = f"{proxy.url()}?socket_timeout=0.8&client_name=locksmith"
    lock, owner = stage.client(url).lock("name"), stage.owner()
    started = time.monotonic()
    assert await owner.do(lock.acquire)
    assert 0.8 <= time.monotonic() - started < 2.6
    assert b"locksmith" in {c["name"].encode() for c in stage.redis.client_list()}
    await owner.do(lock.release)


def test_a_client_is_made_where_no_file_can_be_opened(face: Face) -> None:
    """`connect` opens no file: a full descriptor table is told of when a server is needed."""
    _ = face.module.connect("redis://localhost:1")  # what is imported late is there now
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        client = face.module.connect("redis://localhost:1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "localhost:1" in repr(client)


def test_the_order_of_the_sentinels_means_nothing() -> None:
    """The order of the Sentinels and the default port do not change the server's name.

    Another service is another server.
    """
    one, same, other = (
        open_url(f"redis+sentinel://{rest}", Options())[0].where
        for rest in ("a,b:26379/x", "b,a/x/3", "a,b/y")
    )
    assert one == same == "x (Sentinels a:26379, b:26379)"
    assert other != one


def test_the_first_of_several_values_counts() -> None:
    """Whether Sentinels are named or not."""
    for url in ("redis://a/?db=4&db=5", "redis+sentinel://a/mymaster?db=4&db=5"):
        servers, _ = open_url(url, Options())
        assert isinstance(servers, Endpoint)
        assert servers.db == 4
