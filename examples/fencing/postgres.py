"""A row in PostgreSQL that refuses a late writer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.fencing import StaleTokenError

if TYPE_CHECKING:
    import psycopg

TABLE = """
CREATE TABLE IF NOT EXISTS report (id BIGINT PRIMARY KEY, text TEXT, token BIGINT NOT NULL)
"""

WRITE = """
INSERT INTO report (id, text, token) VALUES (%(id)s, %(text)s, %(token)s)
ON CONFLICT (id) DO UPDATE SET text = excluded.text, token = excluded.token
WHERE report.token <= excluded.token
"""


def write(connection: psycopg.Connection, row: int, text: str, token: int) -> None:
    """Write *text* into *row*, unless a newer hold has written there.

    Raises:
        StaleTokenError: a newer hold has written; the transaction is rolled back.
    """
    with connection.transaction():
        cursor = connection.execute(WRITE, {"id": row, "text": text, "token": token})
        if cursor.rowcount == 0:
            raise StaleTokenError(f"token {token} is too old for row {row}", token=token)
