"""The Lua scripts of the core, as they are written and as a server is sent them."""

from __future__ import annotations

from importlib import resources

from interlock._core.scripts.source import MESSAGES, sent, text_of

LUA = resources.files("interlock._core").joinpath("lua")


TEXTS = {
    path.name.removesuffix(".lua"): text_of(path.name.removesuffix(".lua"))
    for path in sorted(LUA.iterdir(), key=str)
    if path.name.endswith(".lua")
}
"""Name of a script -> its source, with what it includes in place."""
SENT = {
    stem: {publish: sent(text, publish) for publish in MESSAGES} for stem, text in TEXTS.items()
}
"""Name of a script -> command for messages -> what a server is sent."""
EVERY_TEXT = sorted({text for variants in SENT.values() for text in variants.values()})
"""Everything that servers are sent."""
