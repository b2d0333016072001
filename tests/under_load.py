"""Run the tests beside processes that keep the processor busy: `python -m tests.under_load`.

No test may depend on a quiet machine. Arguments go to pytest. Without arguments the first part of
the tests runs, which takes an hour or more. A test that hangs is ended after `LIMIT` seconds: here
all takes many times longer.
"""

from __future__ import annotations

import subprocess
import sys

BUSY = 16
LIMIT = 600


def main(arguments: list[str]) -> int:
    """Run pytest with *arguments* beside `BUSY` processes, and return its exit code."""
    # Each ends when its standard input does, so none outlives this process.
    program = (
        "import sys, threading, os\n"
        "threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()\n"
        "while True: pass"
    )
    busy = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        for _ in range(BUSY)
    ]
    try:
        command = [sys.executable, "-m", "pytest", f"--timeout={LIMIT}"]
        command += arguments
        return subprocess.run(command, check=False).returncode
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
