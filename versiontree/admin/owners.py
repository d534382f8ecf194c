"""Roots, domains, hPLMs and aliases."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from tenants.admin.base import ModelForm, NotByHand, ReadOnly, acting
from versiontree.admin.base import Serviced
from versiontree.admin.forms import AliasForm, DomainForm, DomainUpdateForm, RootForm, ServiceForm
from versiontree.models import Alias, AliasMove, Domain, Hplm, Root, Version
from versiontree.services.hplms import hplm_delete


def _planted(form: ServiceForm, request: HttpRequest, obj: Any, owner: str) -> None:
    """Do what the form stands for; the admin then shows the row that was made."""
    version: Version = form.act(acting(request))
    obj.pk = getattr(version, owner).pk
    obj.refresh_from_db()


@admin.register(Root)
class RootAdmin(Serviced):
    """Adding a root registers it: jobs convert the checkpoint and build its PLOT."""

    form = RootForm
    list_display = ("name", "source", "created_by", "created_at")
    list_select_related = ("created_by",)
    search_fields = ("name", "source")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name", "source", "corpus", "lower", "alpha") if obj is None else self.list_display

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Root, form: ModelForm, change: bool) -> None:
        if isinstance(form, RootForm):
            _planted(form, request, obj, "root")


@admin.register(Domain)
class DomainAdmin(Serviced):
    """Adding makes a domain of the platform's; saving one teaches it more text, as its next version."""

    list_display = ("name", "root", "tenant", "created_by", "created_at")
    list_filter = ("root", ("tenant", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("root", "tenant", "created_by")
    search_fields = ("name", "tenant__slug")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = DomainForm if obj is None else DomainUpdateForm
        return super().get_form(request, obj, change, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return ("name", "description", "parent", "corpus", "alpha")
        shown = (*self.list_display, "description")
        return (*shown, "corpus", "alpha") if self.has_change_permission(request, obj) else shown

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else (*self.list_display, "description")

    def save_model(self, request: HttpRequest, obj: Domain, form: ModelForm, change: bool) -> None:
        if isinstance(form, ServiceForm):
            _planted(form, request, obj, "domain")


@admin.register(Hplm)
class HplmAdmin(NotByHand, Serviced):
    """Tenants make their own; staff may look, and delete."""

    list_display = ("name", "tenant", "task", "created_by", "created_at", "deleted_at")
    list_filter = (
        "task",
        ("tenant", admin.RelatedOnlyFieldListFilter),
        ("deleted_at", admin.EmptyFieldListFilter),
    )
    list_select_related = ("tenant", "created_by")
    search_fields = ("name", "tenant__slug")
    actions = ("stop_serving",)

    @admin.action(description="Delete: stop serving, keep the record", permissions=["operate"])
    def stop_serving(self, request: HttpRequest, rows: QuerySet[Hplm]) -> None:
        """Delete them as their tenants would."""
        self.each(request, rows, lambda hplm: hplm_delete(hplm=hplm, actor=acting(request)), "deleted")


@admin.register(Alias)
class AliasAdmin(Serviced):
    """Saving moves the alias."""

    form = AliasForm
    list_display = ("name", "hplm", "version", "moved_by", "moved_at")
    list_select_related = ("hplm__tenant", "version__hplm__tenant", "version__root", "moved_by")
    search_fields = ("name", "hplm__name", "hplm__tenant__slug")
    fields = ("name", "hplm", "version", "reason", "moved_by", "moved_at")
    readonly_fields = ("name", "hplm", "moved_by", "moved_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Alias, form: ModelForm, change: bool) -> None:
        if isinstance(form, AliasForm):
            form.act(acting(request))


@admin.register(AliasMove)
class AliasMoveAdmin(ReadOnly):
    """The history of aliases."""

    list_display = ("moved_at", "hplm", "name", "from_version", "to_version", "reason", "moved_by")
    list_select_related = (
        "hplm__tenant",
        "from_version__hplm__tenant",
        "from_version__root",
        "to_version__hplm__tenant",
        "to_version__root",
        "moved_by",
    )
    search_fields = ("name", "hplm__name", "hplm__tenant__slug")
