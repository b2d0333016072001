from typing import TypeAlias, TypeVar

class Line: ...

_T = TypeVar("_T")
_Kept: TypeAlias = dict[_T, tuple[Line, int]]

def line(
    host: bytes, port: str | None, lease: float, valid_for: float, timeout: float, /
) -> Line: ...
def use_tls(
    line: Line,
    functions: bytes,
    authorities: str | None,
    directory: str | None,
    certificates: str | None,
    key: str | None,
    password: str | None,
    ciphers: str,
    options: int,
    flags: int,
    mode: int,
    lowest: int,
    checks_host: bool,
    /,
) -> None: ...
def log_in_by(line: Line, commands: bytes, replies: int, /) -> None: ...
def keep(kept: _Kept[_T], hold: _T, line: Line, command: bytes, until: float, /) -> None: ...
def extend(kept: _Kept[_T], hold: _T, until: float, /) -> bool: ...
def forget(kept: _Kept[_T], hold: _T, /) -> bool: ...
def look(kept: _Kept[_T], hold: _T, /) -> float: ...
def now() -> float: ...
