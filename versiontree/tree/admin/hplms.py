"""Admin pages of models, aliases, alias moves and fine-tunings."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from tenants.base.admin.base import (
    ModelForm,
    ReadOnlyInline,
    admin_link,
    format_timestamp,
    once_per_row,
    staff_user,
    text_lines,
)
from tenants.base.admin.confirm import require_typed_name
from tenants.base.plurals import counted
from versiontree.tree.admin.base import ServiceAdmin
from versiontree.tree.admin.dependents import DependentsFilter
from versiontree.tree.admin.forms import AliasForm, HplmForm, HplmUpdateForm
from versiontree.tree.admin.versioned import VersionedAdmin, VersionInline
from versiontree.tree.models import Alias, Hplm, Version
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.canaries import canary_answers
from versiontree.tree.services.hplms import hplm_delete, hplm_pin, hplm_unpin


class AliasInline(ReadOnlyInline):
    """The aliases of a model."""

    model = Alias
    fields = ("alias", "version", "moved_by", "moved_at", "canary", "canary_percent")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        aliases: QuerySet[Any] = super().get_queryset(request)
        return aliases.select_related(
            "version__root", "version__hplm__tenant", "canary__root", "canary__hplm__tenant", "moved_by"
        )

    @admin.display(description="Alias")
    def alias(self, alias: Alias) -> SafeString:
        """A link to the alias, whose page can move it."""
        return admin_link(alias)


@admin.register(Hplm)
class HplmAdmin(VersionedAdmin):
    """Adding creates a model of a tenant; saving one trains its next version on new data."""

    kind = VersionKind.HPLM
    form = HplmForm
    adds, saves = "Create and train", "Train the next version"
    next_form = HplmUpdateForm
    shown = (
        "name",
        "tenant",
        "task",
        "license",
        "progress",
        "pinned_at",
        "created_by",
        "created_at",
        "deleted_at",
    )
    inlines = (VersionInline, AliasInline)
    list_display = ("name", "tenant", "task", "newest", "status", "created_by", "created_at", "deleted_at")
    list_filter = (
        DependentsFilter,
        "task",
        ("tenant", AutocompleteSelectFilter),
        ("pinned_at", admin.EmptyFieldListFilter),
        ("deleted_at", admin.EmptyFieldListFilter),
    )
    list_select_related = ("tenant", "created_by")
    search_fields = ("name", "tenant__slug")
    autocomplete_fields = ("tenant",)
    actions = ("pin", "unpin", "stop_serving")
    page_actions = actions
    destructive_actions = ("stop_serving",)

    def available_actions(self, row: Hplm) -> tuple[str, ...]:
        if row.deleted_at is not None:
            return ()
        return ("pin" if row.pinned_at is None else "unpin", "stop_serving")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        living = obj is None or obj.deleted_at is None
        return living and super().has_change_permission(request, obj)

    @admin.action(description="Pin in memory", permissions=["operate"])
    def pin(self, request: HttpRequest, rows: QuerySet[Hplm]) -> None:
        """Keep the versions of their aliases in the memory of inference workers."""
        self.each(request, rows, lambda hplm: hplm_pin(hplm=hplm, actor=staff_user(request)), "pinned")

    @admin.action(description="Unpin", permissions=["operate"])
    def unpin(self, request: HttpRequest, rows: QuerySet[Hplm]) -> None:
        """Undo pinning."""
        self.each(request, rows, lambda hplm: hplm_unpin(hplm=hplm, actor=staff_user(request)), "unpinned")

    @admin.action(description="Delete", permissions=["operate"])
    @require_typed_name(
        "delete",
        warning="Requests to {these} fail at once, and the same name can be given again. Records are kept; "
        "weights are removed after a day.",
    )
    def stop_serving(self, request: HttpRequest, rows: QuerySet[Hplm]) -> None:
        """Delete models, as their tenants can."""
        self.each(request, rows, lambda hplm: hplm_delete(hplm=hplm, actor=staff_user(request)), "deleted")


@admin.register(Alias)
class AliasAdmin(ServiceAdmin):
    """Aliases. Saving moves one."""

    form = AliasForm
    ordering = ("-pk",)  # by an index: nearly all are called default
    list_display = ("name", "hplm", "version", "canary", "share", "since", "moved_at")
    list_filter = (("canary", admin.EmptyFieldListFilter),)
    list_select_related = (
        "hplm__tenant",
        "version__hplm__tenant",
        "version__root",
        "canary__hplm__tenant",
        "canary__root",
    )
    search_fields = ("name", "hplm__name", "hplm__tenant__slug")
    fields = (
        "name",
        "hplm",
        "version",
        "reason",
        "moved_by",
        "moved_at",
        "canary",
        "share",
        "since",
        "answers",
    )
    readonly_fields = tuple(name for name in fields if name not in ("version", "reason"))

    @admin.display(description="Share", ordering="canary_percent")
    def share(self, alias: Alias) -> str | None:
        """Return the share of the requests that the canary answers."""
        return None if alias.canary_percent is None else f"{alias.canary_percent}%"

    @admin.display(description="Since (UTC)", ordering="canary_started_at")
    def since(self, alias: Alias) -> str | None:
        """Return when the canary began, to the second."""
        return format_timestamp(alias.canary_started_at) if alias.canary_started_at else None

    @admin.display(description="Answers since then", empty_value="-")
    @once_per_row
    def answers(self, alias: Alias) -> SafeString:
        """Return what each version of a canary has answered since it began, a line each."""
        compared = (alias.version, alias.canary) if alias.canary is not None else ()
        return text_lines(_answered(alias, version) for version in compared)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Alias, form: ModelForm, change: bool) -> None:
        if isinstance(form, AliasForm):
            form.act(staff_user(request))


def _answered(alias: Alias, version: Version) -> str:
    answers = canary_answers(alias.hplm.tenant, alias, version)
    name = "Canary" if version.pk == alias.canary_id else "Current version"
    return f"{name} (v{version.number}): {counted(answers.requests, 'request')}, {answers.failed:,} failed."
