"""The package works however Python was started, and from a zip archive."""

from __future__ import annotations

import importlib
import shutil
import sys
import zipapp
from pathlib import Path

import pytest
from tests.support.program import run

import interlock

PROGRAM = """
import sys
import interlock
with interlock.connect(sys.argv[1]) as client:
    with client.lock("name") as hold:
        hold.ensure()
    with client.fair_lock("fair"), client.fenced_lock("fenced") as hold:
        assert hold.token
print("done")
"""
EMBEDDED = """
import interlock
try:
    interlock.connect("embedded://archive").lock("name").locked()
except interlock.ConfigError as error:
    print(error)
"""
SUB_INTERPRETER = """
import sys
sys.path[:] = {path!r}
{before}
try:
    import interlock
except ImportError as error:
    assert "daemon threads" in str(error), error
else:
    raise AssertionError("it was imported")
"""
PRETEND = "import _thread; _thread.daemon_threads_allowed = lambda: False"


def printed(*arguments: str) -> str:
    """Return what Python prints; it must print nothing else, and succeed."""
    done = run(sys.executable, *arguments, limit=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("options", ["-Xdev -Werror", "-OO", "-I", "-I -OO -Xdev", "-B -s -E"])
def test_each_way_to_start_python(options: str, redis_url: str) -> None:
    """Locks work with Python's development mode, without docstrings and asserts, and isolated."""
    assert printed(*options.split(), "-c", PROGRAM, redis_url) == "done"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Make a zip archive of the package, with redis-py and a main program that runs a text."""
    import redis

    contents = tmp_path / "contents"
    for package in (interlock, redis):
        assert package.__file__ is not None
        source = Path(package.__file__).parent
        leave_out = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(source, contents / source.name, ignore=leave_out)
    (contents / "__main__.py").write_text("import sys\nexec(sys.argv.pop(1))\n")
    zipapp.create_archive(contents, tmp_path / "program.pyz")
    return tmp_path / "program.pyz"


def test_a_zip_archive(archive: Path, redis_url: str, runtime: Path) -> None:
    """Locks work from a zip archive. It cannot start the embedded server, and says so."""
    where = "assert '.pyz' in __import__('interlock').__file__"
    assert printed("-I", "-S", str(archive), where + PROGRAM, redis_url) == "done"
    told = printed("-I", "-S", str(archive), EMBEDDED)
    assert "cannot be started from a zip archive" in told


def test_a_sub_interpreter_is_refused() -> None:
    """The import says what is not possible in a sub-interpreter without daemon threads."""
    if sys.version_info < (3, 13):
        # Before, the standard library has no such interpreters, or cannot tell.
        printed("-c", SUB_INTERPRETER.format(path=sys.path, before=PRETEND))
        return
    interpreters = importlib.import_module("_interpreters")
    number = interpreters.create()
    try:
        program = SUB_INTERPRETER.format(path=sys.path, before="")
        problem = interpreters.run_string(number, program)
        assert problem is None, problem
    finally:
        interpreters.destroy(number)
