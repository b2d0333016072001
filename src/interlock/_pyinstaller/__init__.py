"""What PyInstaller must know to freeze a program that uses interlock.

PyInstaller finds this folder by the entry point `pyinstaller40`, and reads the hook in it.
"""

from pathlib import Path


def hook_dirs() -> list[str]:
    """Return the folder with the hook."""
    return [str(Path(__file__).parent)]
