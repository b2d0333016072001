"""The agent in Java: built once by Maven, for each version of Redisson."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from .agent import Agent

NEW, OLD = "4.7.0", "3.27.2"
"""The versions of Redisson: the whole matrix with the first, a short core with the second."""

_HOME = Path(__file__).parent / "agent"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


def is_there() -> bool:
    return all(shutil.which(tool) for tool in ("java", "javac", "mvn"))


def target() -> Path:
    """Return where builds go: INTERLOCK_AGENT_TARGET, or else a place in the source tree."""
    return Path(os.environ.get("INTERLOCK_AGENT_TARGET", _HOME / "target"))


def classpath(version: str) -> str:
    """Build the agent with Redisson *version* unless it is built already; return its class path.

    Raises:
        RuntimeError: it did not build.
    """
    target().mkdir(parents=True, exist_ok=True)
    # Tests may run in several processes: one builds, the others find it done.
    with (target() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _built(version)


def _built(version: str) -> str:
    built = target() / version
    stamp = built / "built"
    sources = [_HOME / "pom.xml", *_HOME.glob("src/**/*.java")]
    newest = max(source.stat().st_mtime for source in sources)
    if not stamp.exists() or stamp.stat().st_mtime < newest:
        command = [
            *("mvn", "-q", "-B", "compile"),
            f"-Dredisson.version={version}",
            f"-Dagent.target={target()}",
        ]
        ran = subprocess.run(command, cwd=_HOME, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"the agent in Java does not build:\n{ran.stdout}{ran.stderr}")
        stamp.touch()
    return f"{built}/classes:{built}/lib/*"


def java_agent(version: str, log: Path) -> Agent:
    """Return the agent with Redisson *version*, not started yet."""
    command = ["java", *_JVM, _QUIET, "-cp", classpath(version), "interop.Agent"]
    return Agent("java", command, log)


def stacks(agent: Agent) -> str:
    """Return what the threads of the agent do, for a test that fails."""
    if agent.language != "java":
        return f"{agent} is no process of Java"
    asked = subprocess.run(["jstack", str(agent.pid)], capture_output=True, text=True, check=False)
    return asked.stdout + asked.stderr
