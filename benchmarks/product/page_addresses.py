"""The addresses of all pages and lists, from the routes of the product.

Imported once Django knows its settings.
"""

from collections.abc import Mapping
from typing import Final

from django.contrib import admin

from frontend.views.models import PARTS
from tests.integration.routes.conf import PARAMETER, routes

ADMIN: Final = ("admin/", "api/v1/platform/")
SKIPPED: Final = ("health/", "metrics", "v1/", "v2", "logout/", "admin/logout/", "api/v1/")
"""Of programs, with a key; and what ends the session."""
KEPT: Final = ("api/v1/tenants/", "api/v1/platform/")
OF_A_TENANT: Final = "t/<slug:slug>/"
SEARCHES: Final = (
    "tree/?q=crowd",
    "models/?q=crowd-09",
    "models/?page=400",
    "models/?status=failing",
    "models/?sort=newest&task=classification",
    *(f"models/<slug:name>/?part={part}" for part in PARTS[1:]),
    "data/?q=crowd&sort=largest",
    "data/datasets/<int:pk>/rows/?split=test&q=text",
    "jobs/?q=crowd",
    "requests/?q=crowd-09",
    "requests/?status=failed",
    "search/?q=crowd",
    "usage/?by=model",
    "domains/new/?find_corpus=crowd",
)


def page_addresses(places: Mapping[str, object]) -> tuple[list[str], list[str]]:
    """Return the address of every route with values from `places`, with some searches, and the routes that
    have a parameter without a value."""
    values = {**places, **_first_rows()}
    found = [route for route in routes() if route.startswith(KEPT) or not route.startswith(SKIPPED)]
    filled = {route: _filled(route, values) for route in [*found, *(OF_A_TENANT + one for one in SEARCHES)]}
    left_out = [route for route, address in filled.items() if not address]
    return list(dict.fromkeys(address for address in filled.values() if address)), left_out


def needs_admin(address: str) -> bool:
    """Return whether the page is the administrators'."""
    return address.startswith(tuple(f"/{prefix}" for prefix in ADMIN))


def _first_rows() -> dict[str, object]:
    """The row that stands for each kind in the administration."""
    rows = {model: model._base_manager.order_by("pk").first() for model in admin.site._registry}
    return {f"{model._meta.model_name}/object_id": row.pk for model, row in rows.items() if row is not None}


def _filled(route: str, places: Mapping[str, object]) -> str:
    """The route with a value for each parameter, by what stands before it and its name or by the name alone;
    nothing where one has none."""
    parts = route.split("/")
    for place, part in enumerate(parts):
        before = PARAMETER.sub("", parts[place - 1]) if place else ""
        for name in PARAMETER.findall(part):
            value = places.get(f"{before}/{name}", places.get(name))
            if value is None:
                return ""
            parts[place] = PARAMETER.sub(str(value), parts[place], count=1)
    return "/" + "/".join(parts)
