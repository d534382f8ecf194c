"""The settings of the installation, as the web server uses them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from hmi_site import env

SECRET: Final = re.compile(r"(?:^|_)(?:SECRET|TOKEN|PASSWORD|INIT_KEY)(?:_|$)")
HIDDEN: Final = "hidden"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting: its environment variable, its value without secrets, and whether the variable is set."""

    name: str
    value: str
    is_set: bool


def setting_rows() -> list[SettingRow]:
    """The settings by name."""
    return [
        SettingRow(name, _shown(name, value), env.is_set(name)) for name, value in sorted(env.in_use.items())
    ]


def _shown(name: str, value: object) -> str:
    if value is None or value in ("", []):
        return "–"
    if SECRET.search(name):
        return HIDDEN
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return _without_password(str(value))


def _without_password(value: str) -> str:
    """A URL without user, password and query; anything else unchanged."""
    if "://" not in value:
        return value
    parts = urlsplit(value)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


@admin.site.admin_view
@never_cache
@require_GET
def settings_page(request: HttpRequest) -> HttpResponse:
    """The settings, for superusers."""
    user: Any = request.user
    if not user.is_superuser:
        raise PermissionDenied
    context = {**admin.site.each_context(request), "title": "Settings", "rows": setting_rows()}
    return render(request, "hmi_site/settings.html", context)
