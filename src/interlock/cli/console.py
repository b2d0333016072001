"""`interlock console`: the web console."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from interlock.cli.arguments import add_url, open_servers
from interlock.cli.status import UsageError, log_to_stderr, need, say, until_signalled

if TYPE_CHECKING:
    import argparse
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
   64   also: the extra is not installed
"""

LOOPBACK = "127.0.0.1"


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    told = "where to serve; 0 is any free port (default: 8700)"
    parser.add_argument("--port", type=int, default=8700, help=told)
    add_url(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Serve until a signal ends it, and return the exit status."""
    need("console", "starlette", "uvicorn", "jinja2")
    import uvicorn  # noqa: PLC0415 - an extra

    from interlock.console import make_app  # noqa: PLC0415 - as above

    log_to_stderr()
    config = uvicorn.Config(
        make_app(*open_servers(given, environ)),
        log_level="error",
        http="h11",  # refuses a request with several hosts
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    port: int = given["port"]
    try:
        bound = socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen at {LOOPBACK}:{port}: {error}") from error
    # While it runs uvicorn has handlers of its own. Then it raises the signal again, for ours.
    with until_signalled(), bound:
        say(f"console at http://{LOOPBACK}:{bound.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[bound])
    return 0
