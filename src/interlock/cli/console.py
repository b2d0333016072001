"""`interlock console`: the web console."""

from __future__ import annotations

import argparse
import socket
from functools import partial
from typing import TYPE_CHECKING, cast

from interlock.cli import listening
from interlock.cli.reading import add_url, open_servers
from interlock.cli.status import UsageError, log_to_stderr, say
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

DESCRIPTION = """\
Serve web pages that show who holds and awaits what, and who waits for whom, at 127.0.0.1. The pages
update themselves. They only show: nothing can be changed by them.
"""

EPILOG = """\
It serves this machine alone, so everybody who may log in here can see the pages. To look from
another machine, forward the port: ssh -L 8700:127.0.0.1:8700 HOST, or kubectl port-forward.

exit status:
    0   it was ended by a signal
   64   usage: the command line or the URL is wrong, or the extra is not installed

example:
  interlock console --url redis://db.example:6379/0
"""

LOOPBACK = "127.0.0.1"
MOST = 65535


def _port(text: str) -> int:
    """Return the port that *text* means; 0 for any that is free.

    Raises:
        argparse.ArgumentTypeError: it means none.
    """
    if not (text.isascii() and text.isdecimal()) or int(text) > MOST:
        raise argparse.ArgumentTypeError(f"wanted a port up to {MOST}, found {text!r}")
    return int(text)


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument(
        "--port",
        type=_port,
        default=8700,
        help="where to serve; 0 is any free port (default: 8700)",
    )
    add_url(parser)


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Serve until a signal ends it, and return the exit status; arguments as of `locks_list.main`.

    Raises:
        UsageError: the port is taken, or the extra is missing.
        ConfigError: a URL that cannot be.
    """
    listening.need("console", "starlette", "uvicorn", "jinja2")
    import uvicorn  # noqa: PLC0415 - an extra

    from interlock.console import make_app  # noqa: PLC0415 - as above

    log_to_stderr()
    config = uvicorn.Config(
        make_app(open_servers(given, environ), Options()),
        log_level="error",
        http="h11",  # refuses a request with several hosts
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # While it runs uvicorn has handlers of its own. Then it raises the signal again, for this one.
    listening.on_end(partial(setattr, server, "should_exit", True))
    wanted = cast("int", given["port"])
    try:
        bound = socket.create_server((LOOPBACK, wanted))
    except OSError as error:
        raise UsageError(f"cannot listen at {LOOPBACK}:{wanted}: {error}") from error
    with bound:
        say(f"console at http://{LOOPBACK}:{bound.getsockname()[1]}/")
        server.run(sockets=[bound])
    return 0
