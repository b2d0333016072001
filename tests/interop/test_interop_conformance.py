"""The conformance kit agrees with the client that it was recorded from."""

from __future__ import annotations

import shlex

from tests.interop.java import NEW, classpath

from interlock.cli import main


def test_redisson_conforms(need_java: None) -> None:
    """Java's Redisson departs nowhere from what was recorded of it."""
    driver = shlex.join(["java", "-Xmx256m", "-cp", classpath(NEW), "interop.Agent"])
    assert main(["conformance", "--client", driver, "--only", "lock", "--only", "fair"], {}) == 0
