"""The embedded server's directory against a second real user of the machine."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlock._embedded.place import private
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STRANGER = 54_321
"""The number of a user who has nothing."""

# The child only becomes another user and runs one function: the parent's threads do not matter.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a directory like /tmp: everybody may add to it."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-shared-", dir="/tmp"))
    directory.chmod(0o1777)
    yield directory
    shutil.rmtree(directory)


def as_stranger(act: Callable[[], object]) -> str:
    """Return the name of the error that *act* raises as another user, or "nothing"."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = "nothing"
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            act()
        except BaseException as error:
            told = type(error).__name__
        os.write(writing, told.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        told = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return told


def test_a_stranger_cannot_enter(shared: Path) -> None:
    """Another user can neither list the directory, nor write there, nor reach a socket in it."""
    place = private(private(shared / "interlock-0") / "default")
    path = place / "redis.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        assert as_stranger(lambda: list(shared.iterdir())) == "nothing"
        assert as_stranger(lambda: list(place.iterdir())) == "PermissionError"
        assert as_stranger((place / "x").touch) == "PermissionError"
        reach = socket.socket(socket.AF_UNIX)
        assert as_stranger(lambda: reach.connect(str(path))) == "PermissionError"
        reach.close()


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_what_a_stranger_laid_out_is_refused(shared: Path, mode: int) -> None:
    """A directory that another user made first, whatever its mode, is refused and left alone."""
    place = shared / "interlock-0"

    def lay_out() -> None:
        place.mkdir()
        place.chmod(mode)

    assert as_stranger(lay_out) == "nothing"
    with pytest.raises(ConfigError, match=f"belongs to user {STRANGER}"):
        private(place)
    assert list(place.iterdir()) == []


def test_a_link_by_a_stranger_is_refused(shared: Path, tmp_path: Path) -> None:
    """A symbolic link of another user's is refused, and nothing is made where it leads."""
    place = shared / "interlock-0"
    assert as_stranger(lambda: place.symlink_to(tmp_path)) == "nothing"
    with pytest.raises(ConfigError, match="not a directory"):
        private(place)
    assert list(tmp_path.iterdir()) == []
