"""The navigation of the administration: what there is, in groups of what belongs together."""

from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

GROUPS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "Version tree": (
        ("versiontree.Root", "potted_plant"),
        ("versiontree.Domain", "account_tree"),
        ("versiontree.Hplm", "psychology"),
        ("versiontree.Version", "history"),
        ("versiontree.Alias", "label"),
        ("versiontree.Artifact", "inventory_2"),
        ("versiontree.VersionArtifact", "join_inner"),
    ),
    "Work": (
        ("versiontree.Job", "work"),
        ("versiontree.JobShard", "grid_view"),
        ("versiontree.FineTuning", "tune"),
        ("versiontree.Batch", "stacks"),
        ("tenants.UploadCheck", "fact_check"),
    ),
    "Tenants": (
        ("tenants.Tenant", "apartment"),
        ("tenants.Quota", "speed"),
        ("tenants.Membership", "group"),
        ("tenants.Invitation", "forward_to_inbox"),
        ("tenants.ApiKey", "key"),
        ("tenants.WebhookEndpoint", "webhook"),
        ("tenants.Takeout", "folder_zip"),
    ),
    "Data": (
        ("tenants.Corpus", "article"),
        ("tenants.Dataset", "dataset"),
        ("tenants.DatasetSplit", "table_rows"),
        ("tenants.Upload", "upload_file"),
        ("tenants.File", "draft"),
        ("tenants.PartedFile", "file_copy"),
    ),
    "Accounts": (
        ("tenants.User", "person"),
        ("auth.Group", "groups"),
        ("account.EmailAddress", "mail"),
        ("mfa.Authenticator", "password"),
        ("axes.AccessAttempt", "lock"),
    ),
    "Records": (
        ("tenants.AuditEvent", "receipt_long"),
        ("tenants.UsageDay", "bar_chart"),
        ("tenants.UsageSum", "functions"),
        ("tenants.UsageMonth", "calendar_month"),
        ("versiontree.AliasMove", "swap_horiz"),
        ("versiontree.JobEvent", "notes"),
        ("versiontree.Coverage", "percent"),
        ("versiontree.Evaluation", "grading"),
        ("tenants.WebhookDelivery", "outbound"),
        ("tenants.KeptAnswer", "mark_email_read"),
    ),
}
"""Every list that there is, in one of them."""


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups with what this person may look at."""
    first = [
        {"title": "Dashboard", "icon": "dashboard", "link": reverse("admin:index")},
        {"title": "Serving workers", "icon": "dns", "link": reverse("admin:serving-workers")},
    ]
    groups: list[dict[str, Any]] = [{"title": "", "items": first}]
    for title, models in GROUPS.items():
        items = [item for name, icon in models if (item := list_item(request, name, icon))]
        groups += [{"title": title, "separator": True, "items": items}] if items else []
    return groups


def list_item(request: HttpRequest, name: str, icon: str = "") -> dict[str, Any] | None:
    """What the list of a model is called and where it is; None for those who may not look at it."""
    model = apps.get_model(name)
    if not admin.site.is_registered(model):
        return None
    if not admin.site.get_model_admin(model).has_view_permission(request):
        return None
    opts = model._meta
    link = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return {"title": _title(str(opts.verbose_name_plural)), "icon": icon, "link": link}


def _title(name: str) -> str:
    return name if name.startswith("hPLM") else name[:1].upper() + name[1:]
