"""Find out what the user may do by trying it, in ways that change nothing.

ACL DRYRUN would tell as well, but the user that locks need may not run it, and Redis 6.2 does not
have it. The server looks at the rights first and at the arguments later. So commands are sent with
arguments that cannot work: a server that permits the command refuses the arguments. Commands
without such arguments (RPUSH, DECR) are tried on a key of this check's own, and taken back.

The server's ACL LOG shows the commands that were refused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoPermissionError, ResponseError

from interlock._core.insight.card import INDEX
from interlock._links.replies import error_code
from interlock.check.facts import RightsFacts
from interlock.check.rights import rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.check.requirements import Requirements
    from interlock.check.rights import Rights

_CALL_ALL = """\
local answers = {}
for i, command in ipairs(cjson.decode(ARGV[1])) do
  local reply = redis.pcall(unpack(command))
  answers[i] = type(reply) == 'table' and reply.err or ''
end
return answers
"""
_NO_SUCH_DIGEST = "0" * 40

# Arguments behind the key; for all that writes, they cannot work.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "decrby": ("x",),
    "hdel": ("x",),
    "hexists": ("x",),
    "hget": ("x",),
    "hmget": ("x",),
    "hscan": ("0",),
    "hset": ("x", "x", "x"),
    "hstrlen": ("x",),
    "incrby": ("x",),
    "lindex": ("0",),
    "lpos": ("x",),
    "lrange": ("0", "0"),
    "lrem": ("0", "x"),
    "pexpire": ("x",),
    "set": ("x", "x"),
    "zadd": ("x", "x"),
    "zcount": ("x", "x"),
    "zrange": ("0", "0"),
    "zrangebyscore": ("0", "0"),
    "zrem": ("x",),
    "zremrangebyrank": ("x", "x"),
    "zremrangebyscore": ("0", "0"),
    "zscore": ("x",),
}
_GROWING = {"decrby", "hset", "incrby", "set", "zadd"}
"""What a full server refuses, unless a script has written before: these come first."""
_TAKEN_BACK: dict[str, tuple[str, ...]] = {"decr": (), "rpush": ("x",)}
"""What can only be tried by doing it."""
_OTHERS: dict[str, tuple[str | int, ...]] = {
    "asking": ("ASKING",),
    "client|list": ("CLIENT", "LIST", "TYPE", "MASTER"),
    "client|setinfo": ("CLIENT", "SETINFO", "LIB-NAME", "interlock-check"),
    "client|setname": ("CLIENT", "SETNAME", "interlock-check"),
    "cluster|info": ("CLUSTER", "INFO"),
    "cluster|slots": ("CLUSTER", "SLOTS"),
    "info": ("INFO", "replication"),
    "pubsub|channels": ("PUBSUB", "CHANNELS", "interlock-check"),
    "pubsub|numsub": ("PUBSUB", "NUMSUB"),
    "pubsub|shardnumsub": ("PUBSUB", "SHARDNUMSUB"),
    "role": ("ROLE",),
    "scan": ("SCAN", 0, "COUNT", 1),
    "wait": ("WAIT", 0, 1),
    "waitaof": ("WAITAOF", 0, 0, 1),
    "zscan": ("ZSCAN", INDEX, 0),
}


def try_rights(
    client: Any, name: str, requirements: Requirements, timeout: float
) -> tuple[RightsFacts, bool | None]:
    """Return what the user of *client* may not do, and whether messages are heard.

    Args:
        client: of redis-py.
        name: to try them under; nobody else uses it.
        requirements: what is needed.
        timeout: seconds to wait for a message.
    """
    probe = _AclProbe(client, requirements.rights, requirements.name_pattern, name)
    probe.try_scripts()
    if not probe.unknown:
        probe.try_keys()
        probe.try_data()
    heard = probe.try_messages(timeout, sharded=requirements.sharded)
    for command in requirements.rights.others:
        probe.permitted(f"+{command}", *_OTHERS[command])
    return probe.result(), heard


class _AclProbe:
    def __init__(self, client: Any, wanted: Rights, name_pattern: str, name: str) -> None:
        self._client = client
        self._wanted = wanted
        self._pattern = name_pattern
        self._name = name
        # Objects that Redisson does not have do not use the key that is called like them.
        self._key = wanted.keys[0].example(name)
        self._missing: list[str] = []
        self._refused: dict[str, str] = {}
        self.unknown = ""

    def result(self) -> RightsFacts:
        return RightsFacts(
            missing=tuple(dict.fromkeys(self._missing)),
            refused=self._refused,
            unknown=self.unknown,
        )

    def permitted(self, rule: str, *command: str | int) -> bool:
        """Try *command*; where it is not permitted, *rule* is missing."""
        try:
            self._client.execute_command(*command)
        except NoPermissionError:
            self._missing.append(rule)
            return False
        except ResponseError as error:
            self._note(str(error))
        return True

    def _note(self, answer: str) -> None:
        """Keep an error that is neither about rights nor about the arguments."""
        code = error_code(answer)
        if code not in ("ERR", "NOPERM", "NOSCRIPT", "WRONGTYPE", "MOVED"):
            self._refused.setdefault(code, answer)

    def _fail(self, error: ResponseError) -> None:
        """Keep why no script runs."""
        answer = str(error)
        self._refused.setdefault(error_code(answer), answer)
        self.unknown = f"the server runs no scripts now: {answer}"

    def try_scripts(self) -> None:
        self.permitted("+evalsha", "EVALSHA", _NO_SUCH_DIGEST, 0)
        try:
            self._client.eval("return 1", 0)
        except NoPermissionError:
            self._missing.append("+eval")
            self.unknown = "commands and keys cannot be tried without the right to EVAL"
        except ResponseError as error:
            self._fail(error)

    def try_keys(self) -> None:
        for place in self._wanted.keys:
            [rule] = rules("~", [place], self._pattern)
            self.permitted(rule, "EVAL", "return 1", 1, place.example(self._name))
        [first] = rules("~", self._wanted.keys[:1], self._pattern)
        if first in self._missing:
            self.unknown = f"commands cannot be tried without a key: the check used {self._key!r}"

    def try_data(self) -> None:
        if self.unknown:
            return
        wanted, key = self._wanted.data, self._key
        # TIME is the one that has no key.
        harmless = [
            (word, *(() if word == "time" else (key, *_ARGUMENTS.get(word, ()))))
            for word in sorted(wanted, key=lambda word: word not in _GROWING)
            if word not in _TAKEN_BACK
        ]
        denied = self._call(harmless)
        if "del" in denied:
            return  # what could not be taken back is not tried
        for word in wanted:
            if word in _TAKEN_BACK:
                self._call([(word, key, *_TAKEN_BACK[word]), ("del", key)])

    def _call(self, commands: Sequence[Sequence[str]]) -> set[str]:
        """Call *commands* from a script, as the objects do; return those that are not permitted."""
        try:
            answers = self._client.eval(_CALL_ALL, 1, self._key, json.dumps(commands))
        except ResponseError as error:
            self._fail(error)
            return set()
        denied: set[str] = set()
        for (word, *_), answer in zip(commands, answers, strict=True):
            if error_code(answer) == "NOPERM":
                denied.add(word)
            elif answer:
                self._note(answer)
        self._missing += [f"+{word}" for word in sorted(denied)]
        return denied

    def try_messages(self, timeout: float, *, sharded: bool) -> bool | None:
        """Publish and listen as releases do; None where it is not permitted, or not needed."""
        heard: bool | None = None
        for place in self._wanted.channels:
            apart = sharded and not place.plain
            prefix = "s" if apart else ""
            channel, [rule] = place.example(self._name), rules("&", [place], self._pattern)
            with self._client.pubsub() as listener:
                subscribe = listener.ssubscribe if apart else listener.subscribe

                def listen(subscribe: Any = subscribe, name: str = channel) -> None:
                    subscribe(name)
                    listener.get_message(timeout=timeout)

                def publish(word: str = f"{prefix}PUBLISH", name: str = channel) -> None:
                    self._client.execute_command(word, name, "interlock-check")

                listening = self._may_use_channel(f"+{prefix}subscribe", rule, listen)
                if self._may_use_channel(f"+{prefix}publish", rule, publish) and listening:
                    message = listener.get_message(timeout=timeout)
                    heard = message is not None and heard is not False
            self.permitted(f"+{prefix}unsubscribe", f"{prefix}UNSUBSCRIBE", channel)
        if self._wanted.channels:
            self.permitted("+ping", "PING")
        for command in self._wanted.messages:
            if command.startswith("pubsub|"):
                self.permitted(f"+{command}", *_OTHERS[command])
        return heard

    def _may_use_channel(
        self, command_rule: str, channel_rule: str, use: Callable[[], None]
    ) -> bool:
        try:
            use()
        except NoPermissionError as error:
            self._missing.append(channel_rule if "channel" in str(error) else command_rule)
            return False
        return True
