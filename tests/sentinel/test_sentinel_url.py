"""What a URL of Sentinels may say, and what becomes of one that says something else."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from interlock import ConfigError, Options
from interlock._links.urls import open_url

if TYPE_CHECKING:
    from tests.lock.lock_like import Face

    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint

SECRET = "hush"


@pytest.mark.parametrize(
    "url",
    [
        f"redis+sentinel://:{SECRET}@a:26379",
        f"redis+sentinel://:{SECRET}@a:26379/",
        f"redis+sentinel://:{SECRET}@a,,b/mymaster",
        f"redis+sentinel://:{SECRET}@a:x/mymaster",
        f"redis+sentinel://:{SECRET}@a,b:99999/mymaster",
        f"redis+sentinel://:{SECRET}@a/mymaster/orders",
        f"redis+sentinel://:{SECRET}@a/mymaster/-1",
        f"redis+sentinel://a/mymaster?password={SECRET}&no_such_option=1",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_no_such_option=1",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_ssl=perhaps",
        f"redis+sentinel://a/mymaster?sentinel_password={SECRET}&sentinel_ssl_ca_certs=/ca.pem",
    ],
)
def test_a_url_that_cannot_work_is_refused(face: Face, url: str) -> None:
    """A URL without a service, or with a bad host, database or parameter, raises ConfigError.

    It raises at once, and shows no password.
    """
    with pytest.raises(ConfigError) as caught:
        face.module.connect(url)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def _opened(url: str) -> Endpoint | Cluster:
    return open_url(url, Options())[0]


def test_the_order_of_the_sentinels_means_nothing() -> None:
    """The order of the Sentinels and the default port do not change the server's name.

    Another service is another server.
    """
    one, same = _opened("redis+sentinel://a,b:26379/x"), _opened("redis+sentinel://b,a/x/3")
    assert one.where == same.where == "x (Sentinels a:26379, b:26379)"
    assert _opened("redis+sentinel://a,b/y").where != one.where
