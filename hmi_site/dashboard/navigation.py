"""The menu of the admin, and the tabs below its entries."""

from dataclasses import dataclass
from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """An entry of the menu: a page of its own (``view``), or the lists of ``models``.

    The entry leads to the first list. All its lists are tabs of each other.
    """

    title: str
    icon: str
    models: tuple[str, ...] = ()
    view: str = ""
    superuser: bool = False


MENU: Final = (
    MenuEntry("Dashboard", "dashboard", view="admin:index"),
    MenuEntry(
        "Tenants",
        "apartment",
        (
            "accounts.Tenant",
            "accounts.Membership",
            "accounts.Invitation",
            "accounts.ApiKey",
            "webhooks.WebhookEndpoint",
            "webhooks.WebhookDelivery",
            "transfer.Takeout",
        ),
    ),
    MenuEntry("Usage", "bar_chart", ("usage.UsageDay", "usage.LoggedRequest", "usage.Quota")),
    MenuEntry("Roots", "potted_plant", ("tree.Root", "tree.Artifact")),
    MenuEntry("Domains", "account_tree", ("tree.Domain", "datasets.Corpus")),
    MenuEntry(
        "Models",
        "psychology",
        (
            "tree.Hplm",
            "tree.Version",
            "tree.Alias",
            "datasets.Dataset",
        ),
    ),
    MenuEntry(
        "Jobs",
        "work",
        (
            "jobs.Job",
            "batches.Batch",
            "datasets.Upload",
            "datasets.UploadCheck",
        ),
    ),
    MenuEntry("Workers", "dns", view="admin:serving-workers"),
    MenuEntry(
        "Users",
        "person",
        ("accounts.User", "auth.Group", "account.EmailAddress", "mfa.Authenticator", "axes.AccessAttempt"),
    ),
    MenuEntry("Settings", "settings", view="admin:settings", superuser=True),
    MenuEntry("Audit log", "receipt_long", ("audit.AuditEvent",)),
)
"""The entries in the order of the work."""

TITLES: Final = {
    "usage.UsageDay": "Daily usage",
    "usage.LoggedRequest": "Request log",
    "accounts.ApiKey": "API keys",
    "axes.AccessAttempt": "Failed sign-ins",
    "mfa.Authenticator": "Second factors",
    "account.EmailAddress": "E-mail addresses",
    "datasets.UploadCheck": "Checks of uploads",
    "audit.AuditEvent": "Audit log",
}
"""Titles of lists whose rows have another name."""


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The menu of the pages that the user may view (unfold's SIDEBAR)."""
    items = []
    for entry in MENU:
        lists = [item for name in entry.models if (item := list_item(request, name))]
        is_hidden = entry.superuser and not _is_superuser(request)
        if is_hidden or (entry.models and not lists):
            continue
        link = lists[0]["link"] if lists else reverse(entry.view)
        items.append({"title": entry.title, "icon": entry.icon, "link": link})
    return [{"title": "", "items": items}]


def tabs(request: HttpRequest) -> list[dict[str, Any]]:
    """The tabs of the lists of each entry that the user may view (unfold's TABS)."""
    groups = []
    for entry in MENU:
        items = [item for name in entry.models if (item := list_item(request, name))]
        if len(items) > 1:
            groups.append({"models": [name.lower() for name in entry.models], "items": items})
    return groups


def list_item(request: HttpRequest, name: str) -> dict[str, Any] | None:
    """The title and URL of a model's change list. None if the user may not view it."""
    model = apps.get_model(name)
    if not admin.site.is_registered(model):
        return None
    if not admin.site.get_model_admin(model).has_view_permission(request):
        return None
    opts = model._meta
    link = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return {"title": TITLES.get(name) or _title(str(opts.verbose_name_plural)), "link": link}


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]
