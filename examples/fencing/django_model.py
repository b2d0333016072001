"""A Django model that refuses a late writer. Put the two classes into your ``models.py``."""

from __future__ import annotations

from django.db import models

from interlock.fencing import StaleTokenError


class FencedQuerySet(models.QuerySet):
    """A query set that writes under a fencing token."""

    def write(self, token: int, **values: object) -> None:
        """Set *values* in the one row that is selected, unless a newer hold has written there.

        Do not use ``save()`` for these columns: it writes without the check.

        Raises:
            StaleTokenError: a newer hold has written, or there is no such row.
        """
        if not self.filter(token__lte=token).update(token=token, **values):
            raise StaleTokenError(f"token {token} is too old for this row", token=token)


class Report(models.Model):
    """A report, and the largest token that has written it."""

    text = models.TextField()
    token = models.BigIntegerField(default=0)

    objects = FencedQuerySet.as_manager()

    class Meta:
        """Django's settings of this model."""

        app_label = "reports"

    def __str__(self) -> str:
        """Return the text."""
        return self.text
