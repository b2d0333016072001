"""The rules of services that refuse some scripts or commands of Redis, for `ModelServer`.

Each mode follows the document that it names. No service was asked: a mode refuses what its document
says that the service refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.model.keyspace import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CALL = re.compile(r"\bredis\.p?call\s*\(")
_COMMAND = re.compile(r"'(\w+)'")
_KEY = re.compile(r"KEYS\[\d+\]")
_ALL_ARE_KEYS = frozenset({"DEL", "EXISTS"})
_KEYLESS = frozenset({"PUBLISH", "SPUBLISH", "PUBSUB", "TIME", "CLUSTER", "INFO"})


TRUE_EPOCHS = (3, 2)
"""What CLUSTER INFO tells on a server that counts its failovers."""


@dataclass(frozen=True)
class Mode:
    """What one service refuses.

    Attributes:
        document: where that is written.
        literal: whether each command and each key in a script must be literal.
        declared: whether a script may touch only the keys that it was given.
        keyed: whether each script must be given a key.
        in_scripts: commands that scripts may not call.
        refused: commands that nobody may send.
        epochs: the current epoch and the node's own, as CLUSTER INFO tells them; empty for none.
    """

    document: str
    literal: bool = False
    declared: bool = False
    keyed: bool = False
    in_scripts: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    epochs: tuple[int, ...] = TRUE_EPOCHS


MODES = {
    "keys": Mode(
        "https://redis.io/docs/latest/commands/eval/", literal=True, declared=True, keyed=True
    ),
    "tair": Mode(
        "https://help.aliyun.com/document_detail/92942.html",
        literal=True,
        keyed=True,
        refused=frozenset({"WAIT"}),
    ),
    "elasticache": Mode(
        "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/"
        "ClientConfig.RestrictedCommands.html",
        refused=frozenset({"CONFIG"}),
    ),
    "memorydb": Mode(
        "https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html",
        refused=frozenset({"CONFIG"}),
    ),
    "memorystore": Mode(
        "https://docs.cloud.google.com/memorystore/docs/valkey/supported-commands",
        refused=frozenset({"CONFIG"}),
    ),
    "aiven": Mode(
        "https://aiven.io/docs/products/valkey/reference/restricted-commands",
        refused=frozenset({"ACL", "CLUSTER", "COMMAND", "CONFIG"}),
    ),
    "huawei": Mode(
        "https://support.huaweicloud.com/intl/en-us/productdesc-dcs/dcs-pd-200813004.html",
        keyed=True,
    ),
    "upstash": Mode("https://upstash.com/docs/redis/features/key-locking", declared=True),
    "dragonfly": Mode(
        "https://www.dragonflydb.io/docs/managing-dragonfly/scripting",
        declared=True,
        epochs=(1, 1),
    ),
    "serverless": Mode(
        "https://github.com/otovo/redis-rate-limiters/issues/11",
        keyed=True,
        in_scripts=frozenset({"TIME"}),
        refused=frozenset({"CONFIG"}),
    ),
    "bare": Mode(
        "docs/reference/services.md",
        literal=True,
        declared=True,
        in_scripts=frozenset({"PUBLISH", "SPUBLISH", "PUBSUB", "TIME"}),
        refused=frozenset({"CONFIG", "WAIT"}),
        epochs=(),
    ),
    "silent": Mode(
        "docs/reference/services.md",
        in_scripts=frozenset({"PUBLISH", "SPUBLISH", "PUBSUB"}),
        refused=frozenset({"PUBLISH", "SPUBLISH"}),
    ),
    "kvrocks": Mode(
        "https://github.com/apache/kvrocks/issues/3139",
        declared=True,
        in_scripts=frozenset({"PUBSUB", "SPUBLISH"}),
    ),
    "garnet": Mode(
        "https://microsoft.github.io/garnet/docs/commands/scripting-and-functions",
        in_scripts=frozenset({"SPUBLISH"}),
    ),
}
"""The modes by name.

Three are no services. "keys" is the rule about keys, without exceptions. "bare" refuses everything
that some service refuses and locks can do without. "silent" has no messages at all.
"""


def broken_rules(text: str) -> list[str]:
    """Return the calls in a script whose command or keys are not literal."""
    found: list[str] = []
    for words in _calls(text):
        command = _COMMAND.fullmatch(words[0])
        keys = keys_of([command[1] if command else "", *words[1:]])
        if command is None or not all(_KEY.fullmatch(key) for key in keys):
            found.append(", ".join(words))
    return found


def _calls(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of a command in *text*."""
    for call in _CALL.finditer(text):
        words, depth, quoted, word = list[str](), 1, False, ""
        for letter in text[call.end() :]:
            quoted ^= letter == "'"
            depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
            if depth == 0 or (letter == "," and depth == 1 and not quoted):
                words.append(word.strip())
                word = ""
                if depth == 0:
                    break
            else:
                word += letter
        yield words


def keys_of(words: Sequence[str]) -> Sequence[str]:
    """Return the words of *words*, a command, that are keys."""
    name = words[0].upper()
    if name in _KEYLESS:
        return ()
    return words[1:] if name in _ALL_ARE_KEYS else words[1:2]


class Rules:
    """The rules of one mode, as a server applies them.

    Args:
        name: a key of `MODES`.

    Raises:
        LookupError: there is no such mode.
    """

    def __init__(self, name: str) -> None:
        if name not in MODES:
            raise LookupError(f"no mode {name!r}; there are {', '.join(MODES)}")
        self._mode = MODES[name]
        self._declared: frozenset[bytes] = frozenset()

    @property
    def epochs(self) -> tuple[int, ...]:
        """The current epoch and the node's own; empty if CLUSTER INFO tells none."""
        return self._mode.epochs

    def check_command(self, name: str) -> None:
        """Raise ModelError if clients may not send *name*."""
        if name in self._mode.refused:
            raise ModelError(f"ERR unknown command '{name}'")

    def check_script(self, text: bytes) -> None:
        """Raise ModelError if the text of a script breaks a rule."""
        if self._mode.literal and (broken := broken_rules(text.decode())):
            raise ModelError(
                "ERR bad lua script for redis cluster, all the keys that the script uses should be "
                f"passed using the KEYS array, and KEYS should not be in expression: {broken[0]}"
            )

    def begin(self, keys: Sequence[bytes]) -> None:
        """Note the keys of a script that begins; raise ModelError if it needs some."""
        if self._mode.keyed and not keys:
            raise ModelError(
                "ERR for redis cluster, eval/evalsha number of keys can't be negative or zero"
            )
        self._declared = frozenset(keys)

    def check_call(self, words: Sequence[bytes]) -> None:
        """Raise ModelError if a script may not run the command *words*."""
        name = words[0].decode().upper()
        if name in self._mode.refused:
            raise ModelError("ERR Unknown Redis command called from script")
        if name in self._mode.in_scripts:
            raise ModelError("ERR This Redis command is not allowed from script")
        if self._mode.declared and name not in _KEYLESS:
            keys = words[1:] if name in _ALL_ARE_KEYS else words[1:2]
            if not self._declared.issuperset(keys):
                raise ModelError("ERR script tried accessing undeclared key")
