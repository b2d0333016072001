"""The application for ``INSTALLED_APPS``: the management command, and a check of the setting."""

# Django has no types.
# pyright: reportMissingTypeStubs=false
# pyright: reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks

import interlock.django
from interlock._links.urls import open_url
from interlock.errors import ConfigError
from interlock.options import Options


class InterlockConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """``"interlock.django"`` in ``INSTALLED_APPS``."""

    name = "interlock.django"
    label = "interlock"

    def ready(self) -> None:
        """Let ``manage.py check`` look at the setting."""
        checks.register(check_setting)


def check_setting(**_: object) -> list[checks.CheckMessage]:
    """Return an error if the setting ``INTERLOCK`` cannot work; no server is asked."""
    try:
        url, options = interlock.django.read_settings()
        Options().replace(**options)
        if url is not None:
            open_url(url)
    except ConfigError as error:
        return [checks.Error(str(error), id="interlock.E001")]
    return []
