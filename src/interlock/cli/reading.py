"""Where a command for operators reads the locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from interlock._links.urls import open_url
from interlock.cli.status import UsageError
from interlock.cli.values import url_of_file, urls_of
from interlock.credentials import FileCredentials
from interlock.inspection import Reader
from interlock.options import Options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint


def add_url(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* where the server is."""
    parser.add_argument(
        "--url", metavar="URL", help="the server (default: $INTERLOCK_URL, $REDIS_URL)"
    )
    parser.add_argument(
        "--url-file",
        dest="url",
        type=url_of_file,
        metavar="FILE",
        help="read the URL from FILE: `ps` shows that of --url to every user",
    )
    add_credentials(parser)


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* where the credentials are that change."""
    parser.add_argument(
        "--credentials-file",
        dest="credentials",
        type=FileCredentials,
        metavar="FILE",
        help="a password, or a user and a password in two lines, read again when FILE changes "
        "(default: $INTERLOCK_CREDENTIALS_FILE)",
    )


def credentials_of(
    given: Mapping[str, object], environ: Mapping[str, str]
) -> FileCredentials | None:
    """Return the credentials that were given, or that the environment names; None for neither."""
    named = environ.get("INTERLOCK_CREDENTIALS_FILE")
    chosen = given["credentials"] or (FileCredentials(named) if named else None)
    return cast("FileCredentials | None", chosen)


def url_of(given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """Return the URL that was given, or that the environment names.

    An operator who forgot it would look at an embedded server without any locks.

    Raises:
        UsageError: there is none, or the environment names several.
    """
    if given["url"]:
        return str(given["url"])
    named = urls_of(environ)
    if len(named) > 1:
        raise UsageError("INTERLOCK_URL names several servers: choose one by --url")
    if url := named[0] if named else environ.get("REDIS_URL"):
        return url
    raise UsageError(
        "no server is named: give --url, or set INTERLOCK_URL or REDIS_URL; "
        "the embedded server of this machine is embedded://"
    )


def open_reader(given: Mapping[str, object], environ: Mapping[str, str]) -> Reader:
    """Return what reads the locks of the server that was named.

    Raises:
        UsageError: as `url_of`.
        ConfigError: a URL that cannot be.
    """
    return Reader(open_servers(given, environ), Options())


def open_servers(given: Mapping[str, object], environ: Mapping[str, str]) -> Endpoint | Cluster:
    """Return the servers that were named, with their credentials; errors as `open_reader`."""
    return open_url(url_of(given, environ), credentials_of(given, environ))
