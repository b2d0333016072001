"""The part in C under ASan and UBSan: `python -m tests.sanitizers`.

It compiles `_exchange.c` and `faults.c` with gcc. First the tests of that part run with it. Then
EINTR, EAGAIN and short reads and writes come at random in a quarter of the calls each. Every reply
must be what was sent, and the sanitizers silent.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tests.support.again import again

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src" / "interlock" / "_links" / "_exchange.c"
TESTS = ("tests/links/test_exchange.py", "tests/links/test_resp.py")
SANITIZE = "-fsanitize=address,undefined"
COMMON = ("gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-Wall", "-Wextra")
FROM = "500"
SHORT, LONG = 400, 20_000


def build(directory: Path) -> tuple[Path, Path]:
    """Compile the module with the sanitizers into a copy of the package, and the faults."""
    package, faults = directory / "interlock", directory / "faults.so"
    shutil.copytree(ROOT / "src" / "interlock", package, ignore=shutil.ignore_patterns("*.so"))
    module = package / "_links" / "_exchange.abi3.so"
    digest = hashlib.sha1(SOURCE.read_bytes(), usedforsecurity=False).hexdigest()
    include = f"-I{sysconfig.get_path('include')}"
    strict = (SANITIZE, "-fno-sanitize-recover=all", f'-DSOURCE="{digest}"', include)
    subprocess.run([*COMMON, *strict, "-o", module, SOURCE], check=True)
    subprocess.run([*COMMON, "-o", faults, HERE / "faults.c", "-ldl"], check=True)
    return module, faults


def runtime() -> str:
    """Return the libraries of the sanitizers, which must be loaded before everything else."""
    names = ("libasan.so", "libubsan.so")
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in names
    ]
    return ":".join(found)


def main() -> int:
    """Run the tests, and exchanges with and without faults; return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="tests.sanitizers", description=__doc__)
    parser.add_argument("--short", action="store_true", help=f"{SHORT} exchanges of each kind")
    parser.add_argument("--exchanges", type=int, default=LONG)
    parser.add_argument("--seeds", type=int, default=2, help="with faults, each with another seed")
    options = parser.parse_args()
    count = SHORT if options.short else options.exchanges
    with tempfile.TemporaryDirectory() as directory:
        module, faults = build(Path(directory))
        environ = {
            **os.environ,
            "LD_PRELOAD": runtime(),
            # The interpreter itself leaks at exit, and its small objects hide from ASan.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=86",
            "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=86",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": directory,
            "INTERLOCK_FAULTS_FROM": FROM,
        }
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", *TESTS]
        if subprocess.run(pytest, env=environ, cwd=ROOT, check=False).returncode:
            return 1
        for seed in range(options.seeds + 1):
            if seed:
                environ |= {"LD_PRELOAD": f"{runtime()}:{faults}", "INTERLOCK_FAULTS": str(seed)}
            command = [sys.executable, HERE / "exchanges.py", module, str(count), str(seed)]
            done = subprocess.run(command, env=environ, check=False)
            if done.returncode:
                print(f"failed with status {done.returncode}, seed {seed}")
                print(again("tests.sanitizers", seeds=seed, exchanges=count))
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
