"""What pyproject.toml cannot say.

That is the text that PyPI shows, and the part in C, without which the package works and is slower.

The wheel is for the stable ABI: one per platform serves every Python from 3.11 on.
``INTERLOCK_PURE=1`` builds the wheel for all other platforms, which has no part in C.
"""

import hashlib
import os
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

from hatch_fancy_pypi_readme.hooks import FancyReadmeMetadataHook
from setuptools import Extension, setup

PURE = os.environ.get("INTERLOCK_PURE") == "1"
# Python without the interpreter lock has no stable ABI before 3.15.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")
SOURCE = "src/interlock/_links/_exchange.c"
MACROS = [("Py_LIMITED_API", "0x030B0000")] if STABLE else []


def description() -> str:
    """Return the README, with the links that pyproject.toml gives it outside of a checkout."""
    config = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["hatch"]["metadata"]["hooks"]
    made: dict[str, Any] = {}
    FancyReadmeMetadataHook(".", config[FancyReadmeMetadataHook.PLUGIN_NAME]).update(made)
    return made["readme"]["text"]


def part() -> Extension:
    """Return the module that sends and receives.

    It knows the digest of its source: the tests refuse one that was compiled from another source.
    """
    digest = hashlib.sha1(Path(SOURCE).read_bytes(), usedforsecurity=False).hexdigest()
    return Extension(
        "interlock._links._exchange",
        [SOURCE],
        define_macros=[("SOURCE", f'"{digest}"'), *MACROS],
        # No debug information: it names the directory of the build.
        extra_compile_args=["-Wall", "-Wextra", "-g0"],
        optional=True,
        py_limited_api=STABLE,
    )


setup(
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[] if PURE else [part()],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE and not PURE else {},
)
