"""The other version of interlock: a checkout, or a commit of this one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.process import ROOT

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


@contextlib.contextmanager
def other(where: str) -> Generator[Path]:
    """Yield a folder whose `src` has interlock as in the checkout, or the commit, *where*.

    Raises:
        ValueError: *where* is neither, or the two versions are not compiled alike.
    """
    with contextlib.ExitStack() as stack:
        code = Path(where).resolve()
        if code == ROOT:
            raise ValueError(f"{where} is this version, not another one")
        if not (code / "src" / "interlock").is_dir():
            code = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-")))
            _install(where, code)
        if compiled(code) != compiled(ROOT):
            lacks = ROOT if compiled(code) else code
            raise ValueError(
                "only one version has its parts in C: "
                f"run `python setup.py build_ext --inplace` in {lacks}"
            )
        yield code


def compiled(code: Path) -> bool:
    """Tell whether interlock in the checkout *code* has parts in C."""
    return any((code / "src").rglob("*.so"))


def _install(commit: str, home: Path) -> None:
    """Build *commit* as a user would, and install it into ``src`` of the folder *home*."""
    checkout = home / "checkout"
    checkout.mkdir()
    archive = _run(["git", "-C", str(ROOT), "archive", commit])
    _run(["tar", "-x", "-C", str(checkout)], archive)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    _run([*pip, "--target", str(home / "src"), str(checkout)])


def _run(words: Sequence[str], given: bytes = b"") -> bytes:
    done = subprocess.run(words, input=given, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"{' '.join(words)} failed: {done.stderr.decode()[-500:]}")
    return done.stdout
