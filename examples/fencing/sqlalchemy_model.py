"""A SQLAlchemy model that refuses a late writer."""

from __future__ import annotations

from sqlalchemy import BigInteger, CursorResult, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from interlock.fencing import StaleTokenError


class Base(DeclarativeBase):
    """The models of this example."""


class Report(Base):
    """A report, and the largest token that has written it."""

    __tablename__ = "report"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
    token: Mapped[int] = mapped_column(BigInteger, default=0)


def write(session: Session, row: int, text: str, token: int) -> None:
    """Write *text* into *row*, unless a newer hold has written there.

    The update is part of the session's transaction. Roll back if it raises.

    Raises:
        StaleTokenError: a newer hold has written, or there is no such row.
    """
    statement = (
        update(Report)
        .where(Report.id == row, Report.token <= token)
        .values(text=text, token=token)
        .execution_options(synchronize_session="fetch")
    )
    result = session.execute(statement)
    if not isinstance(result, CursorResult) or result.rowcount == 0:
        raise StaleTokenError(f"token {token} is too old for row {row}", token=token)
