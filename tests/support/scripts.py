"""The Lua scripts as the library sends them: what they include is in its place."""

from __future__ import annotations

from importlib import resources

from interlock._core.scripts.script import text_of

LUA = resources.files("interlock._core").joinpath("lua")
STEMS = sorted(
    path.name.removesuffix(".lua") for path in LUA.iterdir() if path.name.endswith(".lua")
)
TEXTS = {stem: text_of(stem) for stem in STEMS}
"""Name of a script -> its text."""
