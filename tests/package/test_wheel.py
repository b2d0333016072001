"""What is installed: the package, and nothing that only its own tests need."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Build the wheel from a copy, where no file of an older build is, and give its file names."""
    copy = tmp_path_factory.mktemp("copy")
    for name in NEEDED:
        shutil.copy(ROOT / name, copy)
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    shutil.copytree(ROOT / "src", copy / "src", ignore=unwanted)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", copy, copy]
    subprocess.run(command, check=True, timeout=100)
    [built] = copy.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_the_wheel_is_the_package_alone(wheel: list[str]) -> None:
    """A wheel has every source file of interlock, and no other top-level package."""
    source = ROOT / "src"
    wanted = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    wanted |= {str(path.relative_to(source)) for path in source.rglob("*.lua")}

    assert wanted <= set(wheel)
    assert {name.split("/")[0].split("-")[0] for name in wheel} == {"interlock"}


def test_the_wheel_has_no_test_support(wheel: list[str]) -> None:
    """No test server, proxy, model or simulator is installed."""
    inside = {Path(name).stem for name in wheel if name.startswith("interlock/testing/")}

    assert inside == {"__init__", "_fakeredis"}
