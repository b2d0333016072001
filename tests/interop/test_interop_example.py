"""The example of one Java and one Python program does what its page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.interop import java

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "redisson"


def test_two_programs_lose_no_count(need_java: None, server: RedisServer, tmp_path: Path) -> None:
    """Java and Python count in one file, and each count of either is there at the end."""
    libraries = java.classpath(java.NEW)
    subprocess.run(["javac", "-cp", libraries, "-d", tmp_path, EXAMPLE / "Orders.java"], check=True)
    counter = tmp_path / "count"
    counter.write_text("0")
    environment = {**os.environ, "REDIS_URL": server.url()}
    environment.pop("INTERLOCK_URL", None)
    programs = [
        subprocess.Popen(command, env=environment)
        for command in (
            ["java", "-cp", f"{tmp_path}:{libraries}", "Orders", str(counter)],
            [sys.executable, EXAMPLE / "orders.py", counter],
        )
    ]
    try:
        assert [program.wait(60) for program in programs] == [0, 0]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert counter.read_text() == "100"
