"""`interlock console`: the web console."""

from __future__ import annotations

import argparse
import ipaddress
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from interlock.cli import listening
from interlock.cli.listening import Address
from interlock.cli.reading import open_servers
from interlock.cli.status import UsageError, log_to_stderr, say
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.console import Access, Network

DESCRIPTION = """\
Serve web pages that show all locks of a service: who holds and awaits what, deadlocks, clients and
losses. Pages update themselves. Without --allow-release nothing can be changed.
"""

EPILOG = """\
Anything but a loopback address needs a secret: a token, which readers type in once, or the header
by which a reverse proxy names its user. That proxy must remove the header from requests. The header
is believed from --proxy alone: without it, from this machine.

It answers under local names and addresses only. Name others with --host, and the name that browsers
use if a proxy stands in between. So no page can reach it by a name that leads here.

exit status:
    0   it was ended by a signal
   64   usage: the command line or the URL is wrong, or the extra is not installed

examples:
  interlock console --url redis://db.example:6379/0
  INTERLOCK_CONSOLE_TOKEN=... interlock console --listen :8700 --allow-release
  interlock console --listen 10.0.0.5:8700 --host locks.example --allow-release \\
      --user-header X-Forwarded-User --proxy 10.0.0.2
"""

LEAST_TOKEN = 16
"""Characters."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    listening.configure(parser, Address("127.0.0.1", 8700))
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="holds the token that readers must show (or $INTERLOCK_CONSOLE_TOKEN)",
    )
    parser.add_argument(
        "--user-header",
        default="",
        metavar="NAME",
        help="the header by which a reverse proxy names its user",
    )
    parser.add_argument(
        "--proxy",
        type=_network,
        action="append",
        default=[],
        metavar="ADDRESS",
        help="from where that header is believed: an address or network; repeatable "
        "(default: this machine)",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which browsers reach it, without a port; repeatable",
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        help="keep there what was seen in the last hour, for the next start "
        "(default: it is forgotten at the end)",
    )
    parser.add_argument(
        "--allow-release", action="store_true", help="let readers break holds, after a question"
    )


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Serve until a signal ends it, and return the exit status; arguments as of `locks_list.main`.

    Raises:
        UsageError: an address without a secret, or an extra that is missing.
        ConfigError: a URL that cannot be.
    """
    listening.need("console", "starlette", "uvicorn", "jinja2")
    import uvicorn  # noqa: PLC0415 - an extra

    from interlock.console import (  # noqa: PLC0415 - as above
        Connection,
        History,
        Server,
        Watch,
        make_app,
    )

    listen = cast("Address", given["listen"])
    access = _access(given, environ, listen)
    # Its own records name the user.
    options = Options(log=False)
    log_to_stderr()
    history = History(Path(str(given["history"])) if given["history"] else None)
    app = make_app(Watch(open_servers(given, environ), options, history=history), access)
    config = uvicorn.Config(
        app,
        host=listen.host or "0.0.0.0",  # noqa: S104 - a secret was given
        port=listen.port,
        log_level="warning",
        # Headers about the sender are the proxy's business, and are not believed here.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        http=Connection,
    )
    server = Server(config)
    # While it runs uvicorn has handlers of its own. Then it raises the signal again, for this one.
    listening.on_end(partial(setattr, server, "should_exit", True))
    try:
        bound = config.bind_socket()
        # Browsers that come before the server is up wait a moment.
        bound.listen()
    except (OSError, SystemExit) as error:
        raise listening.cannot_listen(listen, error.__context__ or error) from error
    host, port = bound.getsockname()[:2]
    say(f"console at http://{f'[{host}]' if ':' in host else host}:{port}/")
    server.run(sockets=[bound])
    return 0


def _access(given: Mapping[str, object], environ: Mapping[str, str], listen: Address) -> Access:
    """Return who may see the console.

    Raises:
        UsageError: an address without a secret, or a proxy without its header.
    """
    from interlock.console import THIS_MACHINE, Access  # noqa: PLC0415 - an extra

    token, header = _token(given, environ), str(given["user_header"])
    if not listen.loopback and not token and not header:
        raise UsageError(
            f"{listen.host or 'all addresses'} can be reached from elsewhere: give a token "
            "(--token-file, $INTERLOCK_CONSOLE_TOKEN) or a proxy's --user-header"
        )
    proxies = cast("list[Network]", given["proxy"])
    if proxies and not header:
        raise UsageError("--proxy means nothing without --user-header")
    return Access(
        token,
        header,
        proxies or THIS_MACHINE,
        tuple(name.lower() for name in cast("list[str]", given["host"])),
        allow_release=bool(given["allow_release"]),
    )


def _network(text: str) -> Network:
    """Return the network, or the one address, that *text* means.

    Raises:
        argparse.ArgumentTypeError: it means none.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _token(given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """Return the token, or an empty text for none.

    Raises:
        UsageError: its file cannot be read, or it is too short.
    """
    token = environ.get("INTERLOCK_CONSOLE_TOKEN", "")
    if name := given["token_file"]:
        try:
            token = Path(os.fspath(str(name))).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--token-file: cannot read {name}: {error}") from error
        if not token:
            raise UsageError(f"--token-file: {name} is empty")
    if token and len(token) < LEAST_TOKEN:
        raise UsageError(
            f"a token of {len(token)} characters can be guessed: {LEAST_TOKEN} at least"
        )
    return token
