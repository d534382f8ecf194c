"""The sidebar of the admin."""

from typing import Any, Final

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

GROUPS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "Version tree": (
        ("tree.Root", "potted_plant"),
        ("tree.Domain", "account_tree"),
        ("tree.Hplm", "psychology"),
        ("tree.Version", "history"),
        ("tree.Alias", "label"),
        ("tree.Artifact", "inventory_2"),
        ("tree.VersionArtifact", "join_inner"),
    ),
    "Work": (
        ("jobs.Job", "work"),
        ("jobs.JobShard", "grid_view"),
        ("tree.FineTuning", "tune"),
        ("batches.Batch", "stacks"),
        ("datasets.UploadCheck", "fact_check"),
    ),
    "Tenants": (
        ("accounts.Tenant", "apartment"),
        ("usage.Quota", "speed"),
        ("accounts.Membership", "group"),
        ("accounts.Invitation", "forward_to_inbox"),
        ("accounts.ApiKey", "key"),
        ("webhooks.WebhookEndpoint", "webhook"),
        ("transfer.Takeout", "folder_zip"),
    ),
    "Data": (
        ("datasets.Corpus", "article"),
        ("datasets.Dataset", "dataset"),
        ("datasets.DatasetSplit", "table_rows"),
        ("datasets.Upload", "upload_file"),
        ("datasets.File", "draft"),
        ("datasets.MultipartUpload", "file_copy"),
    ),
    "Accounts": (
        ("accounts.User", "person"),
        ("auth.Group", "groups"),
        ("account.EmailAddress", "mail"),
        ("mfa.Authenticator", "password"),
        ("axes.AccessAttempt", "lock"),
    ),
    "Records": (
        ("audit.AuditEvent", "receipt_long"),
        ("usage.UsageDay", "bar_chart"),
        ("usage.UsageSum", "functions"),
        ("usage.UsageMonth", "calendar_month"),
        ("usage.AnswerDay", "query_stats"),
        ("tree.AliasMove", "swap_horiz"),
        ("jobs.JobEvent", "notes"),
        ("tree.Coverage", "percent"),
        ("tree.Evaluation", "grading"),
        ("webhooks.WebhookDelivery", "outbound"),
        ("accounts.IdempotentResponse", "mark_email_read"),
    ),
}
"""Each registered model with its icon, by group."""


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups with the models that the user may view."""
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
    """The title and URL of a model's change list. None if the user may not view it."""
    model = apps.get_model(name)
    if not admin.site.is_registered(model):
        return None
    if not admin.site.get_model_admin(model).has_view_permission(request):
        return None
    opts = model._meta
    link = reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist")
    return {"title": _title(str(opts.verbose_name_plural)), "icon": icon, "link": link}


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]
