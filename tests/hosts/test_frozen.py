"""Programs in one file, or with a Python of their own: shiv and PyInstaller."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
import redis
from tests.support.program import run

import interlock

PROGRAM = """
import sys
import interlock

def main():
    with interlock.connect(sys.argv[1]) as client:
        with client.lock("name") as hold, client.fair_lock("fair"):
            hold.ensure()
    assert interlock.asyncio.connect and interlock.check.Report
    try:
        with interlock.connect("embedded://frozen") as client, client.lock("name"):
            print("held")
    except interlock.ConfigError as error:
        print(error)

if __name__ == "__main__":
    main()
"""


def printed(*command: str | Path, **environ: str) -> str:
    """Return what *command* prints; it must succeed."""
    done = run(*command, env={**os.environ, **environ}, limit=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_shiv(tmp_path: Path, redis_url: str) -> None:
    """Locks and the embedded server work from an archive of shiv."""
    contents = tmp_path / "contents"
    for package in (interlock, redis):
        assert package.__file__ is not None
        source = Path(package.__file__).parent
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, contents / source.name, ignore=leave_out)
    if sys.version_info < (3, 11, 3):  # redis-py needs it there
        spec = importlib.util.find_spec("async_timeout")
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(Path(spec.origin).parent, contents / "async_timeout")
    (contents / "program.py").write_text(PROGRAM)
    archive = tmp_path / "program.pyz"
    printed(
        *(sys.executable, "-m", "shiv", "--site-packages", contents),
        *("--entry-point", "program:main", "--output-file", archive),
    )
    places = {"SHIV_ROOT": str(tmp_path / "shiv"), "XDG_RUNTIME_DIR": str(tmp_path)}
    assert printed(sys.executable, "-I", "-S", archive, redis_url, **places) == "held"


@pytest.mark.timeout(600)
def test_pyinstaller(tmp_path: Path, redis_url: str) -> None:
    """A frozen program has the scripts and the part in C, and says that it starts no server."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # The program needs none of these. Without this, they are frozen, too.
    leave_out = ("django", "celery", "fastapi", "opentelemetry", "trio", "tkinter")
    printed(
        *(sys.executable, "-m", "PyInstaller", "--log-level", "ERROR", "--noconfirm"),
        *(f"--exclude-module={name}" for name in leave_out),
        *("--distpath", tmp_path / "dist", "--workpath", tmp_path / "work"),
        *("--specpath", tmp_path, program),
    )
    told = printed(
        tmp_path / "dist" / "program" / "program", redis_url, XDG_RUNTIME_DIR=str(tmp_path)
    )
    assert "cannot be started from a zip archive or a frozen program" in told
