"""The Lua scripts of the core, as they are written and as a server is sent them."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import redis

from interlock._core.model.readers import ENTRIES, declaring
from interlock._core.scripts.script import text_of
from interlock._core.scripts.source import MESSAGES, sent

# Not from redis_model: without the extra `testing` there is no Lua.
from tests.support.model.keyspace import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval

LUA = resources.files("interlock._core").joinpath("lua")
STEMS = sorted(
    path.name.removesuffix(".lua") for path in LUA.iterdir() if path.name.endswith(".lua")
)
TEXTS = {stem: text_of(stem) for stem in STEMS}
"""Name of a script -> its source, with what it includes in place."""
SENT = {
    stem: {publish: sent(text, publish) for publish in MESSAGES} for stem, text in TEXTS.items()
}
"""Name of a script -> command for messages -> what a server is sent."""
EVERY_TEXT = sorted({text for variants in SENT.values() for text in variants.values()})
"""Everything that servers are sent."""


def run_script(evaluate: Callable[..., Any], call: Eval[Any]) -> Any:
    """Run *call* by a client's `eval`; send it again if it asks for the entries of readers."""
    while True:
        try:
            return evaluate(call.script.text, len(call.keys), *call.keys, *call.args)
        except (redis.ResponseError, ModelError) as error:
            if not call.asks or not str(error).startswith(ENTRIES):
                raise
            call = declaring(call, str(error))
