"""Names the Lua scripts, and the modules that only a text names."""

from PyInstaller.utils.hooks import collect_data_files

datas = collect_data_files("interlock")
hiddenimports = [
    f"interlock.{name}" for name in ("asyncio", "check", "errors", "fencing", "observe")
]
