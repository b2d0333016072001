"""Lua 5.1 as Redis runs it, and the only place that knows lupa.

A script sees ``KEYS``, ``ARGV``, ``redis.call``, ``redis.pcall``, ``redis.error_reply``,
``redis.sha1hex`` and the harmless part of Lua's library. The rest fails
aloud, as an unknown global does on a server: cjson, cmsgpack, bit, struct, coroutines, loading of
code, ``_G`` and ``rawset``. So do random numbers, because a simulation has one seed and Lua's
generator has another.

Tables that stand for RESP3 types are not converted. An error message leaves out the line number
that a server adds when ``return redis.call(...)`` was a tail call.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import TYPE_CHECKING, Any, NewType, Protocol

from tests.support.model.keyspace import MAX_INT, MIN_INT, ModelError, Reply, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The stubs that type checkers bring along declare another constructor than lupa has.
try:
    _lua51: Any = importlib.import_module("lupa.lua51")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}: the model of Redis needs it, pip install -e '.[dev]'", name=error.name
    ) from None

_SAME = frozenset((int, bytes))
"""Types that are the same in Lua."""
Chunk = NewType("Chunk", object)
"""A compiled script."""

_BOOTSTRAP = b"""
local invoke, sha1 = ...
local error, getinfo, loadstring, pcall, rawget = error, debug.getinfo, loadstring, pcall, rawget
local select, setfenv, setmetatable, tostring = select, setfenv, setmetatable, tostring
local type, unpack, xpcall, format = type, unpack, xpcall, string.format

local function readonly(contents)
  local function refuse() error('Attempt to modify a readonly table', 2) end
  return setmetatable({}, {__index = contents, __newindex = refuse, __metatable = false})
end

local function library(from, hidden)
  local copy = {}
  for name, value in pairs(from) do
    if not hidden[name] then copy[name] = value end
  end
  return readonly(copy)
end

local function command(raising, ...)
  local count, reply = select('#', ...), nil
  if count == 0 then
    reply = {err = 'ERR Please specify at least one argument for this redis lib call'}
  else
    local words = {...}
    for i = 1, count do
      local kind = type(words[i])
      if kind == 'number' then
        words[i] = format('%.17g', words[i])
      elseif kind ~= 'string' then
        reply = {err = 'ERR Lua redis lib command arguments must be strings or integers'}
      end
    end
    reply = reply or invoke(unpack(words, 1, count))
  end
  if raising and type(reply) == 'table' and reply.err then error(reply) end
  return reply
end

local function one_string(...)
  return select('#', ...) == 1 and type(...) == 'string'
end

local redis = {
  -- Not tail calls: those would hide from error messages where the script called.
  call = function(...) local reply = command(true, ...) return reply end,
  pcall = function(...) local reply = command(false, ...) return reply end,
  error_reply = function(...)
    if not one_string(...) then return {err = 'ERR wrong number or type of arguments'} end
    local text = (...):gsub('^%-', '')
    if not text:find(' ', 1, true) then text = 'ERR ' .. text end
    return {err = text}
  end,
  sha1hex = function(...)
    if select('#', ...) ~= 1 then error('wrong number of arguments', 0) end
    return sha1(tostring((...)))
  end,
}

-- Caught by pcall, an error reply is its text again.
local function soften(ok, failure, ...)
  if not ok and type(failure) == 'table' and type(failure.err) == 'string' then
    return false, failure.err
  end
  return ok, failure, ...
end

local globals = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, rawequal = rawequal, rawget = rawget, select = select,
  setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type,
  unpack = unpack, xpcall = xpcall,
  pcall = function(...) return soften(pcall(...)) end,
  string = library(string, {}), table = library(table, {}),
  math = library(math, {random = true, randomseed = true}),
  redis = readonly(redis),
}
setmetatable(globals, {__index = function(_, name)
  error(format("Script attempted to access nonexistent global variable '%s'", tostring(name)), 2)
end})
local environment = readonly(globals)

local function compile(text)
  local chunk, failure = loadstring(text, '@user_script')
  if chunk then setfenv(chunk, environment) end
  return chunk, failure
end

local function located(failure)
  local text
  if type(failure) == 'table' then
    text = tostring(failure.err)
  else
    text = 'ERR ' .. tostring(failure)
  end
  for level = 2, 100 do
    local frame = getinfo(level, 'Sl')
    if not frame or frame.what == 'tail' then break end
    if frame.source == '@user_script' then return {text, frame.currentline} end
  end
  return {text, -1}
end

local function run(chunk, count, ...)
  local words = {...}
  globals.KEYS, globals.ARGV = {unpack(words, 1, count)}, {unpack(words, count + 1)}
  local ok, result = xpcall(chunk, located)
  if ok then return true, result, nil end
  return false, result[1], result[2]
end

-- What a reply is made of: the fields that mark errors and statuses, the items up to the first nil.
local function open(reply)
  local count = 0
  while rawget(reply, count + 1) ~= nil do count = count + 1 end
  return rawget(reply, 'err'), rawget(reply, 'ok'), unpack(reply, 1, count)
end

local function failure(text) return {err = text} end
local function status(text) return {ok = text} end

return compile, run, open, failure, status
"""


class _Runtime(Protocol):
    def execute(self, code: bytes, *args: object) -> tuple[Any, ...]: ...
    def table(self, *items: object) -> object: ...


class LuaSandbox:
    """Runs scripts whose commands are executed by *call*."""

    def __init__(self, call: Callable[[Sequence[bytes]], Reply]) -> None:
        """Create a Lua state of its own.

        Args:
            call: Executes one command, or raises ModelError.
        """
        self._call = call
        self._fault: BaseException | None = None
        self._lua: _Runtime = _lua51.LuaRuntime(
            encoding=None, register_eval=False, register_builtins=False
        )
        functions = self._lua.execute(_BOOTSTRAP, self._invoke, _sha1hex)
        self._compile: Callable[[bytes], tuple[object, bytes]] = functions[0]
        self._run: Callable[..., tuple[bool, Any, int]] = functions[1]
        self._open: Callable[[object], Sequence[object]] = functions[2]
        self._failure: Callable[[bytes], object] = functions[3]
        self._status: Callable[[bytes], object] = functions[4]

    def compile(self, text: bytes) -> Chunk:
        """Compile a script.

        Raises:
            ModelError: The text is not Lua.
        """
        compiled, failure = self._compile(text)
        if compiled is None:
            raise ModelError(f"ERR Error compiling script (new function): {_text(failure)}")
        return Chunk(compiled)

    def run(self, chunk: Chunk, sha: str, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Run *chunk* and return what a client would receive.

        Args:
            chunk: The compiled script.
            sha: Its SHA1, which stands in error messages.
            keys: What it finds in KEYS.
            args: What it finds in ARGV.

        Raises:
            ModelError: The script failed or returned an error.
        """
        ok, result, line = self._run(chunk, len(keys), *keys, *args)
        if self._fault is not None:
            # Not an error reply but a defect, in the model or a hook: a script must not hide it.
            fault, self._fault = self._fault, None
            raise fault
        if not ok:
            where = f", on @user_script:{line}." if line >= 0 else ""
            raise ModelError(f"{_text(result)} script: {sha}{where}")
        reply = self._from_lua(result)
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def _invoke(self, *words: bytes) -> object:
        try:
            return self._to_lua(self._call(words))
        except ModelError as error:
            return self._failure(str(error).encode())
        except BaseException as fault:
            self._fault = fault
            raise

    def _to_lua(self, reply: Reply) -> object:
        if type(reply) in _SAME:
            return reply
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self._status(bytes(reply))
        if isinstance(reply, list):
            return self._lua.table(*map(self._to_lua, reply))
        return reply

    def _from_lua(self, value: object) -> Reply:
        if isinstance(value, bytes):
            return value
        if type(value) is int and MIN_INT <= value <= MAX_INT:
            return value
        if value is None or isinstance(value, bool):
            return 1 if value else None
        if isinstance(value, int | float):
            # Out of range is what an x86 processor makes of it: the smallest integer.
            return int(value) if MIN_INT <= value <= MAX_INT else MIN_INT
        # Functions have no place in a reply: they are nil.
        return self._from_table(value) if _lua51.lua_type(value) == "table" else None

    def _from_table(self, value: object) -> Reply:
        failure, status, *items = self._open(value)
        if isinstance(failure, bytes):
            return ModelError(_text(failure))
        if isinstance(status, bytes):
            return Status(_one_line(status))
        return [self._from_lua(item) for item in items]


def _sha1hex(text: bytes) -> bytes:
    return hashlib.sha1(text).hexdigest().encode()


def _text(failure: bytes) -> str:
    return _one_line(failure).decode("utf-8", "backslashreplace")


def _one_line(text: bytes) -> bytes:
    return text.replace(b"\r", b" ").replace(b"\n", b" ")
