"""Where a command for operators reads the locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._links.urls import open_url
from interlock.cli.status import UsageError
from interlock.cli.values import url_of_file, urls_of
from interlock.inspection import Reader
from interlock.options import Options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


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
    return Reader(open_url(url_of(given, environ)), Options())
