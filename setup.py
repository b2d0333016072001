"""What pyproject.toml cannot say: the part in C, without which the package works and is slower.

The wheel is for the stable ABI: one per platform serves every Python from 3.11 on.
``INTERLOCK_PURE=1`` builds the wheel for all other platforms, which has no part in C.
"""

import hashlib
import os
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

PURE = os.environ.get("INTERLOCK_PURE") == "1"
# Python without the interpreter lock has no stable ABI before 3.15.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")
SOURCE = "src/interlock/_links/_exchange.c"
# The digest of the source: the tests refuse a part that was compiled from another one.
DIGEST = hashlib.sha1(Path(SOURCE).read_bytes(), usedforsecurity=False).hexdigest()
MACROS = [("SOURCE", f'"{DIGEST}"')]
if STABLE:
    MACROS.append(("Py_LIMITED_API", "0x030B0000"))

setup(
    ext_modules=[]
    if PURE
    else [
        Extension(
            "interlock._links._exchange",
            [SOURCE],
            define_macros=MACROS,
            # No debug information: it names the directory of the build.
            extra_compile_args=["-Wall", "-Wextra", "-g0"],
            optional=True,
            py_limited_api=STABLE,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE and not PURE else {},
)
