"""One working pod among standbys: ready while it leads, alive while it answers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import interlock

leads = threading.Event()


class Probe(BaseHTTPRequestHandler):
    """Answer the probes of the kubelet."""

    def do_GET(self) -> None:
        """/livez: this process answers. /readyz: it leads."""
        ready = self.path == "/livez" or (self.path == "/readyz" and leads.is_set())
        self.send_response(200 if ready else 503)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing of each probe."""


def work(term: interlock.Hold) -> None:
    """Work until the term is lost; send term.token with each write."""
    term.on_lost(leads.clear)
    leads.set()
    print("leading, with token", term.token, flush=True)
    try:
        while not term.lost.wait(1):
            pass  # one step of the work
    finally:
        leads.clear()


def main() -> None:
    """Stand for election again and again, until TERM ends the process."""
    # The election resigns when the process ends by an exception; the next pod leads at once.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Probe)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with interlock.connect() as client:  # INTERLOCK_URL
        election = client.election("importer", candidate=os.environ.get("POD_NAME", "local"))
        while True:
            try:
                election.run(work)
            except interlock.HoldLostError as error:
                print(error, flush=True)


if __name__ == "__main__":
    main()
