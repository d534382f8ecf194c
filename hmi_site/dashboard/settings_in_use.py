"""The settings of the installation, as the web server uses them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from hmi_site import env
from tenants.base.file_sizes import file_size

SECRET: Final = re.compile(r"(?:^|_)(?:SECRET|TOKEN|PASSWORD|INIT_KEY)(?:_|$)")
HIDDEN: Final = "hidden"
REFERENCE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
"""Its table of settings has the descriptions."""
REFERENCE_URL: Final = "/help/operations/#settings"
TABLE_ROW: Final = re.compile(r"^\| (`[A-Z].*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
NAME: Final = re.compile(r"`([A-Z][A-Z0-9_]+)`")
LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
EMPHASIS: Final = re.compile(r"\*(\w[^*`]*\w)\*")
SENTENCE_END: Final = re.compile(r"[.;](?= )")


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting: its environment variable, its value without secrets, whether the variable is set, and the
    first sentence of its description."""

    name: str
    value: str
    is_set: bool
    description: str


def setting_rows() -> list[SettingRow]:
    """The settings by name."""
    return [
        SettingRow(name, _shown(name, value), env.is_set(name), descriptions().get(name, ""))
        for name, value in sorted(env.in_use.items())
    ]


@cache
def descriptions() -> dict[str, str]:
    """The first sentence about each setting in the reference. Empty if the reference is not installed."""
    text = REFERENCE.read_text(encoding="utf-8") if REFERENCE.is_file() else ""
    table = text.partition("\n## Settings\n")[2].partition("\n## ")[0]
    return dict(_described(table))


def _described(table: str) -> Iterator[tuple[str, str]]:
    for names, _, meaning in TABLE_ROW.findall(table):
        plain = EMPHASIS.sub(r"\1", LINK.sub(r"\1", meaning)).replace("`", "")
        sentence = SENTENCE_END.split(plain, maxsplit=1)[0].rstrip(".")
        for name in NAME.findall(names):
            yield name, f"{sentence[:1].upper()}{sentence[1:]}."


def _shown(name: str, value: object) -> str:
    if value is None or value in ("", []):
        return "–"
    if SECRET.search(name):
        return HIDDEN
    if name.endswith("_BYTES") and isinstance(value, int):
        return f"{value} ({file_size(value)})"
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
    own = {"title": "Settings", "rows": setting_rows(), "reference": REFERENCE_URL}
    context = {**admin.site.each_context(request), **own}
    return render(request, "hmi_site/settings.html", context)
