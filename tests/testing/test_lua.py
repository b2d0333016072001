"""Scripts on the model: conversions, errors and the sandbox are those of a real server."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from tests.support.model.redis_model import ModelError, RedisModel
from tests.testing.redis_twin import Twin, real_redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs("redis-7.0")

_REPLIES = r"""
return nil
return
return true
return false
return 0
return -0
return 3.99
return -3.99
return 2^31
return 1e15
return 2^53 + 1
return -9007199254740993
return 2^63
return 1e300
return 1/0
return 0/0
return math.huge
return ''
return 'a\0b\255'
return 5, 6
return {}, 5
return {1, 2, nil, 4}
return {nil, 2}
return {false, true, 3.9, -3.9, 'x'}
return {1, {2, {3, nil, 4}}, {}}
return {1, 2, x = 3}
return {ok = 'fine'}
return {ok = 5}
return {err = 'MY own text'}
return {err = 'abc'}
return {err = ''}
return {err = 5}
return {err = 'a\r\nb', ok = 'x'}
return {1, {err = 'x y'}, {ok = 'fine'}}
return setmetatable({}, {__index = function() return 'v' end})
return function() end
return redis.status_reply('OK\nx')
return redis.status_reply('')
return redis.status_reply(3)
return redis.error_reply('MYERR')
return redis.error_reply('-My text')
return redis.error_reply('My text')
return redis.error_reply('')
return redis.error_reply()
return redis.error_reply('a', 'b')
return {redis.error_reply('x y')}
return redis.sha1hex('')
return redis.sha1hex('\255')
return redis.sha1hex(1)
return redis.sha1hex()
return redis.sha1hex('a', 'b')
"""
_COMMANDS = r"""
return redis.call('get', 'none')
return {redis.call('get', 'none'), 2}
return type(redis.call('get', 'none'))
return select('#', redis.call('get', 'none'))
return redis.call('hmget', 'none', 'a', 'b')
return {redis.call('hgetall', 'none')}
return type(redis.call('lpop', 'none', 2))
return redis.call('lrange', 'l', 0, -1)
return redis.call('type', 'l')
return redis.call('type', 'l').ok
return type(redis.call('set', 'k', 'v'))
return {redis.call('set', 'l', 'v', 'nx')}
return redis.call('exists', 'l') == 1
return redis.call('PTTL', 'none') + 1
redis.call('set', 'n', 1e17) return redis.call('get', 'n')
redis.call('set', 'n', 3.10) return redis.call('get', 'n')
redis.call('set', 'n', 3.0) return redis.call('get', 'n')
redis.call('set', 'n', 1700000000123) return redis.call('get', 'n')
redis.call('set', 'n', 2^53 + 2) return redis.call('get', 'n')
redis.call('set', 'n', -0/1) return redis.call('get', 'n')
redis.call('set', 'n', 1/0) return redis.call('get', 'n')
redis.call('set', 'n', 0/0) return redis.call('get', 'n')
redis.call('set', 'n', '9007199254740993') return redis.call('incr', 'n')
redis.call('set', 'n', 'a\0\255') return redis.call('get', 'n')
return redis.call('append', 's', 1e3)
return redis.call('hset', 'h', 'f', 3)
return redis.call('zadd', 'z', 0.1, 'm')
return redis.call('zscore', 'z', 'm')
return tonumber(redis.call('zscore', 'z', 'm')) == 0.1
return redis.call('lindex', 'l', 0.5)
return #KEYS
return ARGV[1] == nil
KEYS[1] = 'x' return KEYS[1]
"""
_ERRORS = (
    r"""
return redis.call('get', 'l')
redis.call('get', 'l') return 1
return redis.pcall('get', 'l')
return redis.pcall('get', 'l').err
return type(redis.pcall('get', 'l'))
redis.pcall('get', 'l') return 1
local e = redis.pcall('get', 'l') error(e)
local ok, e = pcall(redis.call, 'get', 'l') return {ok, e}
local ok, e = pcall(error, {err = 'X y'}) return {ok, e}
local ok, e = pcall(error, {a = 1}) return {ok, type(e), e.a}
local ok, e = pcall(error, 'x') return {ok, e}
local ok, a, b = pcall(function() return 1, 2 end) return {ok, a, b}
local ok, e = pcall(function() return bar end) return {ok, e}
"""
    "local ok, e = xpcall(function() redis.call('get', 'l') end, "
    "function(e) return e.err end) return {ok, e}\n"
    r"""return redis.call()
return redis.pcall()
return redis.call('get', {})
return redis.pcall('get', {})
return redis.call('get', true)
return redis.call('get', nil)
return redis.call('get')
return redis.call('nonsense', 1)
return redis.pcall('nonsense', 1)
return redis.call('eval', 'return 1', 0)
local function f() redis.call('incr', 's') end f()
error('x')
error('a', 0)
error(3)
error(nil)
error({err = 'X y'})
assert(false)
assert(nil, 'msg')
local x = nil; return x.y
local function f(a) return a.b.c end return f({})
return ({}) .. 'x'
return 1 < 'x'
return #nil
return redis.CALL('get')
x =
x = = 2
return 'a
return 1 +
"""
)
_LIBRARY = (
    r"""
return string.format('%d %s %q', 3.99, 'x', 'y')
return ('x'):rep(3)
return {('a:b'):match('(%a):(%a)')}
return {string.find('a-b', '-', 1, true)}
return table.concat({1, 2, 'x'}, ',')
local t = {3, 1, 2} table.sort(t) return t
local t = {2} table.insert(t, 1, 'x') return t
local t = {1, 2} return table.remove(t, 1)
return math.floor(-3.7)
return {math.max(1, 2), math.min(1, 2)}
"""
    "return {tonumber('0x10'), tonumber(' 12 '), tonumber('1e3'), "
    "tonumber('') or 'nil', tonumber('1x') or 'nil'}\n"
    r"""return tostring(1e15) .. tostring(0.1) .. tostring(nil) .. tostring(1/0)
return '1' + 1
return 10 % 3 + -1 % 3
return {unpack({1, 2, 3}, 2)}
return select(2, 'a', 'b')
return next({}) == nil
local n = 0 for _, v in ipairs({1, 2, nil, 3}) do n = n + v end return n
local n = 0 for _, v in pairs({a = 1, b = 2}) do n = n + v end return n
return rawget({a = 1}, 'a') + (rawequal(1, 1) and 1 or 0)
return foo
foo = 1
KEYS = {}
string.x = 1
redis.x = 1
math.floor = nil
return print
return require
return dofile
return io
return os
return debug
return getfenv
return setfenv
return newproxy
return redis.foo
"""
)
_SNIPPETS = [
    line for text in (_REPLIES, _COMMANDS, _ERRORS, _LIBRARY) for line in text.strip().split("\n")
]


@pytest.fixture(scope="module")
def reference() -> Iterator[Path]:
    """Give the socket of the reference server."""
    with real_redis() as path:
        yield path


@pytest.fixture
def twin(reference: Path) -> Iterator[Twin]:
    """Give a model and a server that both hold a string ``s`` and a list ``l``."""
    with Twin(reference) as twin:
        twin.check("SET", "s", "x")
        twin.check("RPUSH", "l", "a", "1", b"\xff")
        yield twin


@pytest.mark.parametrize("snippet", _SNIPPETS)
def test_a_script_ends_as_on_a_real_server(twin: Twin, snippet: str) -> None:
    """Replies, conversions, error texts and what is left behind are those of a real server."""
    twin.check("EVAL", snippet, 0)
    twin.check_dumps()


def test_keys_and_arguments_of_any_bytes_arrive(twin: Twin) -> None:
    """KEYS and ARGV are strings, byte for byte, and numbers arrive as their digits."""
    twin.check("EVAL", "return {KEYS, ARGV, #ARGV}", 2, b"\x00\xff", "é", b"\r\n", "", 2**53 + 1)
    twin.check("EVAL", "return redis.call('set', KEYS[1], ARGV[1])", 1, b"\x00k\xff", b"\x00v\xff")
    twin.check_dumps()


@pytest.mark.parametrize(
    "command",
    [
        ("EVAL", "return 1", "x"),
        ("EVAL", "return 1", "2", "a"),
        ("EVAL", "return 1", "-1"),
        ("EVAL", "", "0"),
        ("EVAL", "return 1"),
        ("EVALSHA", "x", "0"),
        ("EVALSHA", "0" * 40, "0"),
        ("SCRIPT", "LOAD", "x ="),
        ("SCRIPT", "NONSENSE"),
    ],
)
def test_wrong_script_commands_fail_as_on_a_real_server(twin: Twin, command: tuple[str]) -> None:
    """EVAL, EVALSHA and SCRIPT refuse what a real server refuses, with its words."""
    twin.check(*command)


def test_a_script_is_known_by_its_digest_until_it_is_flushed(twin: Twin) -> None:
    """EVALSHA runs what EVAL or SCRIPT LOAD has seen, and answers NOSCRIPT after SCRIPT FLUSH."""
    text = "return {KEYS[1], ARGV[1]}"
    digest = hashlib.sha1(text.encode()).hexdigest()
    twin.check("EVALSHA", digest, 1, "k", "a")
    twin.check("SCRIPT", "LOAD", text)
    twin.check("EVALSHA", digest.upper(), 1, "k", "a")
    twin.check("EVAL", "return 'other'", 0)
    twin.check("SCRIPT", "EXISTS", digest, "0" * 40, hashlib.sha1(b"return 'other'").hexdigest())
    twin.check("SCRIPT", "FLUSH")
    twin.check("EVALSHA", digest, 1, "k", "a")
    twin.check("EVAL", text, 1, "k", "a")


def test_an_error_names_the_line_of_the_script() -> None:
    """An error message ends with the script's digest and the line that failed."""
    text = "local x = 1\nredis.call('lpush', 'k', 1)\nredis.call('get', 'k')\nreturn x"
    digest = hashlib.sha1(text.encode()).hexdigest()
    with pytest.raises(ModelError) as caught:
        RedisModel(now=lambda: 0.0).eval(text, [], [])
    assert str(caught.value).endswith(f"wrong kind of value script: {digest}, on @user_script:3.")


def test_time_stands_still_within_a_script() -> None:
    """A script sees one time, so that a key that it has found does not expire under its hands."""
    ticks = iter(range(100))
    model = RedisModel(now=lambda: next(ticks))
    model.execute("SET", "k", "v", "PX", 1500)
    text = (
        "local a = redis.call('time')[1] return {a, redis.call('time')[1], redis.call('pttl', 'k')}"
    )
    assert model.eval(text, [], []) == [b"1", b"1", 500]


@pytest.mark.parametrize("name", ["cjson", "cmsgpack", "bit", "struct", "coroutine", "loadstring"])
def test_what_the_sandbox_lacks_fails_aloud(name: str) -> None:
    """A library of a real server that is not modelled is an error, never a silent nil."""
    with pytest.raises(ModelError, match=f"nonexistent global variable '{name}'"):
        RedisModel(now=lambda: 0.0).eval(f"return {name}", [], [])


def test_scripts_cannot_leave_anything_but_data_behind() -> None:
    """Neither globals nor libraries carry anything from one script to the next."""
    model = RedisModel(now=lambda: 0.0)
    for text in ("leak = 1", "string.leak = 1", "setmetatable(string, {})", "KEYS.leak = 1"):
        model.eval(f"return pcall(function() {text} end)", [], [])
    for name in ("rawget(KEYS, 'leak')", "string.leak", "pcall(function() return leak end)"):
        assert model.eval(f"return {name} or false", [], []) is None
