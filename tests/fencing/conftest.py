"""Fixtures of the fencing tests: real databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fencing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give the PostgreSQL server that the fencing tests share."""
    # Here and below: psycopg cannot be imported where there is no PostgreSQL.
    from tests.fencing.postgres import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def report_dsn(postgres: PostgresServer) -> str:
    """Give the address of a PostgreSQL database with one report that no hold has written yet."""
    import psycopg

    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("DROP TABLE IF EXISTS report")
        connection.execute(
            "CREATE TABLE report"
            " (id integer PRIMARY KEY, text text NOT NULL, token bigint NOT NULL DEFAULT 0)"
        )
        connection.execute("INSERT INTO report VALUES (7, 'blank')")
    return postgres.dsn
