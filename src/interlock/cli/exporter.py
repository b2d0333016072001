"""`interlock exporter`: Prometheus metrics of all locks of a service."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

from interlock.cli import listening
from interlock.cli.listening import Address
from interlock.cli.reading import open_servers
from interlock.cli.scrapes import serve
from interlock.cli.status import log_to_stderr, say
from interlock.options import Options

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
   64   usage: the command line or the URL is wrong, or prometheus_client is not installed

examples:
  interlock exporter --url redis://db.example:6379/0
  interlock exporter --listen 127.0.0.1:9464
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this command."""
    listening.configure(parser, Address("", 9464))


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Serve until a signal ends it, and return the exit status.

    Raises:
        UsageError: an extra is missing.
        ConfigError: a URL that cannot be.
    """
    listening.need("prometheus", "prometheus_client")
    import prometheus_client  # noqa: PLC0415 - an extra

    from interlock.exporter import Fleet  # noqa: PLC0415 - as above

    log_to_stderr()
    registry = prometheus_client.CollectorRegistry()
    registry.register(Fleet(open_servers(given, environ), Options()))
    # Its type is known only in part.
    application = cast("Any", prometheus_client).make_wsgi_app(registry)
    listen = cast("Address", given["listen"])
    try:
        host = listen.host or "0.0.0.0"  # noqa: S104 - as documented
        server, thread = serve(host, listen.port, application)
    except OSError as error:
        raise listening.cannot_listen(listen, error) from error
    say(f"metrics at http://{listen.host or '0.0.0.0'}:{server.server_port}/metrics")  # noqa: S104
    ended = threading.Event()
    listening.on_end(ended.set)
    while not ended.wait(3600):
        pass
    server.shutdown()
    server.server_close()
    thread.join()
    return 0
