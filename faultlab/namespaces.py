"""A network namespace with one link to the outside, on which frames can be lost one way.

Not every machine has a packet filter. So a frame is lost by its address: the sender's table of
neighbours names a machine that does not exist. The other way stays open.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

_NOWHERE = "02:00:00:00:de:ad"
_NAME = re.compile(r"faultlab(\d+)")


class Link:
    """The namespace and its link; a context manager.

    Attributes:
        prefix: The command that starts a program inside.
        inside: The address of the inner end.
        outside: The address of the outer end, where servers listen.
    """

    def __init__(self) -> None:
        number = os.getpid()
        self._name = f"faultlab{number}"
        # An interface's name has at most 15 characters.
        self._ends = {"outside": f"flo{number}", "inside": f"fli{number}"}
        net = f"10.{200 + number % 50}.{number // 50 % 256}"
        self.outside, self.inside = f"{net}.1", f"{net}.2"
        self.prefix = ("ip", "netns", "exec", self._name)

    def __enter__(self) -> Self:
        """Make both.

        Raises:
            PermissionError: This machine does not allow namespaces.
        """
        outer, inner = self._ends["outside"], self._ends["inside"]
        try:
            remove_left_over()
            _ip("netns", "add", self._name)
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
            _ip("link", "set", inner, "netns", self._name)
            _ip("addr", "add", f"{self.outside}/24", "dev", outer)
            self._ip_inside("addr", "add", f"{self.inside}/24", "dev", inner)
            _ip("link", "set", outer, "up")
            self._ip_inside("link", "set", inner, "up")
            self._ip_inside("link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            _remove(self._name)
            raise PermissionError(f"no network namespace on this machine: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        """Remove both; the link goes with its inner end."""
        _remove(self._name)

    def _ip_inside(self, *words: str) -> None:
        _ip("-n", self._name, *words)

    @contextlib.contextmanager
    def deaf(self, side: str) -> Iterator[None]:
        """Lose all frames that *side* (``"inside"`` or ``"outside"``) sends."""
        run = self._ip_inside if side == "inside" else _ip
        peer = self.outside if side == "inside" else self.inside
        device = self._ends[side]
        run("neigh", "replace", peer, "lladdr", _NOWHERE, "dev", device, "nud", "permanent")
        try:
            yield
        finally:
            run("neigh", "del", peer, "dev", device)


def remove_left_over() -> None:
    """Remove the namespaces of labs that were killed.

    Raises:
        FileNotFoundError: There is no command ``ip`` here.
    """
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    for number in _NAME.findall(listed.stdout):
        if not Path(f"/proc/{number}").exists():
            _remove(f"faultlab{number}")


def _remove(name: str) -> None:
    # It may be half made, or not at all.
    if shutil.which("ip"):
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)
