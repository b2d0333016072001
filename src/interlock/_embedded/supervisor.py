"""The process that owns an embedded server and ends it after its last client.

It runs as a program, by path, under ``python -I -S``. It imports only the standard library. So it
starts in some milliseconds, stays small, and works however its caller came by `interlock`. `server`
shares its constants and `ask`.

The rules of a server's directory:

* The *directory itself* is locked (flock) by the supervisor **and** by the server, which inherits
  the descriptor. A process that gets that lock knows that both are gone. So there are never two
  servers in one directory, not even beside a hung one. (The lock also makes systemd-tmpfiles leave
  the directory alone.)
* The file ``door`` is locked shared by a process that joins, and exclusively by one that starts a
  server. The supervisor locks it exclusively while it looks whether anybody is connected, and while
  it ends the server. So a join comes before the look, which sees it, or after the end, and finds no
  server. A server never ends between a joiner's PING and the look.
* The server counts its connections (``CLIENT ID``), and the supervisor connects anew for each look.
  If the new connection's id does not directly follow the id of the last look, somebody connected in
  between, and may be gone again. A server that cannot be asked counts as in use.

Neither may outlive the other. The server's end is seen as the end of a pipe that only the server
holds. The supervisor's end, even by SIGKILL, kills the server through PR_SET_PDEATHSIG (Linux; see
docs/install.md for others).

Rejected: pid files (a pid is reused, a lock is not), and the server's ``daemonize`` (nobody would
end it).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

    Server = subprocess.Popen[bytes]

SOCKET, DOOR, LOG = "redis.sock", "door", "log"
TAKEN = 3  # exit status: another supervisor, or a server, has this directory

_REPLY_TIMEOUT = 1.0
_STOP_TIMEOUT = 5.0
_PR_SET_PDEATHSIG = 1
# No TCP, nobody but this user, nothing on disk; what it has to say goes to the log.
_SETTINGS = (
    *("--port", "0", "--unixsocketperm", "700", "--save", "", "--appendonly", "no"),
    *("--daemonize", "no", "--logfile", ""),
)


def ask(path: str, *commands: str) -> list[str]:
    """Send *commands* over one new connection to the server at *path*.

    Returns:
        One text per command: the content of a bulk string, or the line of any other reply with its
        leading type character.

    Raises:
        OSError: no connection, or not every reply came in time.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_REPLY_TIMEOUT)
        connection.connect(path)
        connection.sendall("".join(f"{command}\r\n" for command in commands).encode())
        with connection.makefile("rb") as stream:
            return [_reply(stream) for _ in commands]


def _reply(stream: BinaryIO) -> str:
    line = stream.readline()
    body = stream.read(int(line[1:]) + 2) if line.startswith(b"$") else line
    if not body.endswith(b"\r\n"):
        raise ConnectionError("the server closed the connection instead of replying")
    return body[:-2].decode(errors="replace")


@contextlib.contextmanager
def locked(path: str, kind: int) -> Generator[bool, None, None]:
    """Try to hold a flock on *path* for the body, without waiting; yield whether it is held."""
    flags = os.O_RDONLY if os.path.isdir(path) else os.O_RDWR | os.O_CREAT  # noqa: PTH112 - fast
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            # Not left to close(): a child that another thread forks meanwhile shares the lock until
            # it is undone.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def main(directory: str, binary: str, linger: float, patience: float) -> int:
    """Start *binary* in *directory* and leave a supervisor behind.

    Returns:
        An exit status: 0 once the server answers, 1 if it does not within *patience* seconds, TAKEN
        if another supervisor or server has the directory.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the caller's mask is none of ours
    os.umask(0o077)
    os.chdir(directory)
    place = os.open(".", os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return TAKEN
    os.ftruncate(sys.stdout.fileno(), 0)  # the log, which from here on is nobody else's
    answering, tell = os.pipe()
    # The supervisor is nobody's child (no zombie in the caller) and no session leader (no terminal
    # can reach it).
    if os.fork():
        os.close(tell)
        return 0 if os.read(answering, 1) else 1
    os.close(answering)
    command = [binary, "--unixsocket", f"{directory}/{SOCKET}", *_SETTINGS]
    with _server(command, place) as (server, ended):
        if _answers(server, patience):
            # A starter that was killed hears nothing, but others may have joined already.
            with contextlib.suppress(BrokenPipeError):
                os.write(tell, b"!")
            os.close(tell)
            _watch(server, ended, linger)
    return 0


@contextlib.contextmanager
def _server(command: list[str], place: int) -> Generator[tuple[Server, int], None, None]:
    """Run the server during the body; yield it and a pipe that ends when it does."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    ended, held_by_server = os.pipe()
    server = subprocess.Popen(  # noqa: S603 - the program is the caller's choice
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=(place, held_by_server),
        preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
    )
    try:
        os.close(held_by_server)
        yield server, ended
    finally:
        _end(server)


def _end(server: Server) -> None:
    server.terminate()
    try:
        server.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _die_with(parent: int) -> Callable[[], None] | None:
    """Return a function that makes a child die with *parent*, whatever kills the parent.

    Return None where the system cannot do it.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def in_child() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:  # it died before the call above could tell us
            os.kill(os.getpid(), signal.SIGKILL)

    return in_child


def _answers(server: Server, patience: float) -> bool:
    """Wait for the first PONG; False when the server ended or the time is up."""
    deadline = time.monotonic() + patience
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # not listening yet
            if ask(SOCKET, "PING") == ["+PONG"]:
                return True
        time.sleep(0.005)
    return False


def _watch(server: Server, ended: int, linger: float) -> None:
    """Return once the server has ended; end it when nobody has used it for *linger* seconds.

    The removal of the directory ends it too, as the door cannot be opened then. Newcomers could no
    longer find this server, and would start a second one beside it.
    """
    pause = min(1.0, linger / 5)
    expected, before, used = -1, -1, time.monotonic()
    while not select.select([ended], [], [], pause)[0]:
        with locked(DOOR, fcntl.LOCK_EX) as alone:
            number, clients = _connections() if alone else (-1, -1)
            # Who was there at the last look may have gone just now.
            if number != expected or clients != 1 or before != 1:
                used = time.monotonic()
            elif time.monotonic() - used >= linger:
                _end(server)  # with the door closed
                return
            expected, before = number + 1, clients


def _connections() -> tuple[int, int]:
    """Return the asking connection's id and the number of connections; two -1 if unknown."""
    try:
        number, clients = ask(SOCKET, "CLIENT ID", "INFO clients")
        fields = dict(line.split(":", 1) for line in clients.splitlines() if ":" in line)
        return int(number.removeprefix(":")), int(fields["connected_clients"])
    except (
        OSError,
        ValueError,
        KeyError,
    ):  # hung, busy with a script, or ended: the next look tells
        return -1, -1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])))
