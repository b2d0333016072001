"""`interlock exporter`: Prometheus metrics of all locks of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from interlock.cli.arguments import add_url, open_servers
from interlock.cli.status import UsageError, log_to_stderr, need, say, until_signalled

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DESCRIPTION = """\
Serve Prometheus metrics of all locks of a service, whatever language holds them, under /metrics.
The servers are read at most every five seconds, as `interlock list` reads them: nothing is changed
or blocked. Names of locks are not told.
"""

EPILOG = """\
exit status:
    0   it was ended by a signal
   64   also: prometheus_client is not installed
"""


def address(text: str) -> tuple[str, int]:
    """Return the host and port that *text* means: ``:9464``, ``127.0.0.1:8700``, ``[::1]:8700``."""
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as documented


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    told = "where to serve (default: :9464); :PORT is all IPv4 addresses"
    parser.add_argument("--listen", type=address, default=":9464", metavar="HOST:PORT", help=told)
    add_url(parser)


def main(given: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """Serve until a signal ends it, and return the exit status."""
    need("prometheus", "prometheus_client")
    import prometheus_client  # noqa: PLC0415 - an extra

    from interlock.exporter import Fleet  # noqa: PLC0415 - as above

    log_to_stderr()
    registry = prometheus_client.CollectorRegistry()
    registry.register(Fleet(*open_servers(given, environ)))
    host, port = given["listen"]
    with until_signalled():
        try:
            # Its type is known only in part.
            server, thread = cast("Any", prometheus_client).start_http_server(port, host, registry)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot listen at {host}:{port}: {error}") from error
        say(f"metrics at http://{host}:{server.server_port}/metrics")
        thread.join()
    return 0
