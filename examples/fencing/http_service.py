"""A FastAPI service that refuses a late caller: the token travels in the header Fencing-Token.

This service keeps its data in one process. One that keeps them in a database leaves the check to
the database, as `postgres.py` does: two processes of a service share no mutex.
"""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException

app = FastAPI()
_mutex = threading.Lock()
_newest: dict[str, int] = {}
_texts: dict[str, str] = {}


@app.put("/reports/{name}", status_code=204)
def write(name: str, text: str, fencing_token: Annotated[int, Header(ge=1)]) -> None:
    """Store *text*, unless a caller with a larger token was here before: then answer 409."""
    with _mutex:
        newest = _newest.get(name, 0)
        if fencing_token < newest:
            raise HTTPException(409, f"token {fencing_token} is too old: {newest} has written")
        _newest[name] = fencing_token
        _texts[name] = text


@app.get("/reports/{name}")
def read(name: str) -> str:
    """Return the text."""
    with _mutex:
        if name not in _texts:
            raise HTTPException(404)
        return _texts[name]
