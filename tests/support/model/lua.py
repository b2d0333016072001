"""Lua 5.1 as Redis runs it, and the only place that knows lupa.

A script sees ``KEYS``, ``ARGV``, ``redis.call``, ``redis.pcall``, ``redis.error_reply`` and what the
library's scripts use of Lua's own. The rest fails aloud, as an unknown global does on a server: so do
random numbers, because a simulation has one seed and Lua's generator has another.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NewType, Protocol

from tests.support.model.keyspace import ModelError, Reply

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
local invoke = ...
local format, loadstring, pcall, rawget = string.format, loadstring, pcall, rawget
local select, setfenv, setmetatable, tostring = select, setfenv, setmetatable, tostring
local type, unpack, error = type, unpack, error

local function command(raising, ...)
  local count, words = select('#', ...), {...}
  for i = 1, count do
    local kind = type(words[i])
    if kind == 'number' then
      words[i] = format('%.17g', words[i])
    elseif kind ~= 'string' then
      error({err = 'ERR Lua redis lib command arguments must be strings or integers'})
    end
  end
  local reply = invoke(unpack(words, 1, count))
  if raising and type(reply) == 'table' and reply.err then error(reply) end
  return reply
end

local globals = {
  error = error, ipairs = ipairs, next = next, pairs = pairs, select = select,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
  math = {ceil = math.ceil, floor = math.floor, max = math.max, min = math.min},
  string = string, table = table,
  redis = {
    call = function(...) return command(true, ...) end,
    pcall = function(...) return command(false, ...) end,
    error_reply = function(text)
      text = text:gsub('^%-', '')
      if not text:find(' ', 1, true) then text = 'ERR ' .. text end
      return {err = text}
    end,
  },
}
setmetatable(globals, {__index = function(_, name)
  error(format("Script attempted to access nonexistent global variable '%s'", tostring(name)), 2)
end})
local environment = setmetatable({}, {
  __index = globals,
  __newindex = function() error('Attempt to modify a readonly table', 2) end,
})

local function compile(text)
  local chunk, failure = loadstring(text, '@user_script')
  if chunk then setfenv(chunk, environment) end
  return chunk, failure
end

local function run(chunk, count, ...)
  local words = {...}
  globals.KEYS, globals.ARGV = {unpack(words, 1, count)}, {unpack(words, count + 1)}
  local ok, result = pcall(chunk)
  if ok then return true, result end
  return false, type(result) == 'table' and tostring(result.err) or 'ERR ' .. tostring(result)
end

-- What a reply is made of: the field that marks an error, the items up to the first nil, and how many.
local function open(reply)
  local count = 0
  while rawget(reply, count + 1) ~= nil do count = count + 1 end
  return rawget(reply, 'err'), count, unpack(reply, 1, count)
end

local function failure(text) return {err = text} end

return compile, run, open, failure
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
        functions = self._lua.execute(_BOOTSTRAP, self._invoke)
        self._compile: Callable[[bytes], tuple[object, bytes]] = functions[0]
        self._run: Callable[..., tuple[bool, Any]] = functions[1]
        self._open: Callable[[object], Sequence[object]] = functions[2]
        self._failure: Callable[[bytes], object] = functions[3]

    def compile(self, text: bytes) -> Chunk:
        """Compile a script.

        Raises:
            ModelError: The text is not Lua.
        """
        compiled, failure = self._compile(text)
        if compiled is None:
            raise ModelError(f"ERR Error compiling script (new function): {failure.decode()}")
        return Chunk(compiled)

    def run(self, chunk: Chunk, keys: Sequence[bytes], args: Sequence[bytes]) -> Reply:
        """Run *chunk* with *keys* and *args*, and return what a client would receive.

        Raises:
            ModelError: The script failed or returned an error.
        """
        ok, result = self._run(chunk, len(keys), *keys, *args)
        if self._fault is not None:
            # Not an error reply but a defect, in the model or a hook: a script must not hide it.
            fault, self._fault = self._fault, None
            raise fault
        if not ok:
            raise ModelError(result.decode())
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
        if isinstance(reply, list):
            return self._lua.table(*map(self._to_lua, reply))
        return reply

    def _from_lua(self, value: object) -> Reply:
        if type(value) in _SAME:
            return value  # type: ignore[return-value]
        if value is None or isinstance(value, bool):
            return 1 if value else None
        if isinstance(value, float):
            return int(value)
        failure, _, *items = self._open(value)
        if isinstance(failure, bytes):
            return ModelError(failure.decode())
        return [self._from_lua(item) for item in items]
