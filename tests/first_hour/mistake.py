"""A beginner's mistake: a program, and what its author must read."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 15
"""Lines of the longest text that anybody has to read."""
SYNC = "import interlock\n\nclient = interlock.connect()\n"
ASYNC = (
    "import asyncio\nimport interlock.asyncio\n\n\nasync def main():\n{}\n\nasyncio.run(main())\n"
)
ASYNC_CLIENT = "async with interlock.asyncio.connect() as client:\n"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One row of the table.

    Attributes:
        name: What it is about.
        program: A program of Python; or a command, as its words.
        says: What the user must read, each part of it.
        code: The exit code.
        never: What must not be read.
    """

    name: str
    program: str | tuple[str, ...]
    says: tuple[str, ...]
    code: int = 1
    never: tuple[str, ...] = ()


def sync(name: str, body: str, *says: str, code: int = 1) -> Mistake:
    """Return a mistake of a program for threads, with `client`."""
    return Mistake(name, SYNC + textwrap.dedent(body).strip() + "\n", says, code)


def task(name: str, body: str, *says: str, code: int = 1) -> Mistake:
    """Return a mistake of a task, with `client`."""
    inside = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    block = textwrap.indent(ASYNC_CLIENT + inside, "    ")
    return Mistake(name, ASYNC.format(block), says, code)


def program(name: str, body: str, *says: str, code: int = 1) -> Mistake:
    """Return a mistake of a program that stands alone."""
    return Mistake(name, textwrap.dedent(body).strip() + "\n", says, code)


def command(name: str, line: str, *says: str, code: int) -> Mistake:
    """Return a mistake on the command line; words do not contain spaces."""
    return Mistake(name, tuple(line.split()), says, code)


def read(
    mistake: Mistake, folder: Path, url: str, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run the program of *mistake*, and return its exit code and what its author reads.

    ``URL``, ``HOST`` and ``PORT`` in it stand for those of a real server at *url*.
    """
    port = url.rpartition(":")[2].partition("/")[0]

    def real(text: str) -> str:
        return text.replace("URL_PORT", port).replace("THE_URL", url)

    if isinstance(mistake.program, str):
        path = folder / "program.py"
        path.write_text(real(mistake.program))
        words = [sys.executable, str(path)]
    else:
        words = [sys.executable, "-m", "interlock", *map(real, mistake.program)]
    kept = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    done = subprocess.run(
        words,
        env={**kept, "INTERLOCK_URL": url, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stderr + done.stdout


def lines_of_ours(text: str) -> int:
    """Return how many lines of *text* are not frames of Python's own library, or of trio."""
    library = str(Path(asyncio.__file__).parents[1])
    count, inside = 0, False
    for told in text.strip().splitlines():
        line = re.sub(r"^ *\| ?", "", told)  # of a group of errors
        if line.lstrip().startswith('File "'):
            inside = f'File "{library}' in line and "site-packages" not in line
            inside = inside or "/site-packages/trio/" in line
        elif not line.startswith("    "):
            inside = False
        count += not inside
    return count
