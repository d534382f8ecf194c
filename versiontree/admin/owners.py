"""Roots, domains, hPLMs and aliases."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tenants.admin.base import Listing, ModelForm, ReadOnly, acting, linked
from versiontree.admin.base import STATE_COLOURS, Serviced
from versiontree.admin.forms import (
    AliasForm,
    DomainForm,
    DomainUpdateForm,
    HplmForm,
    HplmUpdateForm,
    RootForm,
    RootTermsForm,
)
from versiontree.admin.service_forms import ServiceForm
from versiontree.knob_fields import Knobbed
from versiontree.models import Alias, AliasMove, Domain, Hplm, Root, Version
from versiontree.models.version import VersionKind, VersionState
from versiontree.remarks import version_warnings
from versiontree.services.compact import domain_compact
from versiontree.services.grow import domain_grow
from versiontree.services.hplms import hplm_delete


class VersionInline(Listing):
    """The versions of a root, domain or hPLM, newest first."""

    model = Version
    ordering = ("-number",)
    fields = ("version", "state", "grown_from", "created_at", "ready_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        parents = ("parent__root", "parent__domain__root", "parent__hplm__tenant")
        versions: QuerySet[Any] = (
            super().get_queryset(request).select_related("root", "domain__root", "hplm__tenant", *parents)
        )
        return versions

    @admin.display(description="Version")
    def version(self, version: Version) -> SafeString:
        """Which it is."""
        return linked(version)

    @admin.display(description="Parent")
    def grown_from(self, version: Version) -> SafeString | None:
        """Which version it goes on from."""
        return linked(version.parent) if version.parent else None


class RootVersionInline(VersionInline):
    """A root's own versions: those of its domains and hPLMs name it too."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        versions: QuerySet[Any] = super().get_queryset(request).filter(kind=VersionKind.ROOT)
        return versions


class Grown(Serviced):
    """What has versions: adding one starts the jobs of its first, saving one those of its next."""

    kind: VersionKind
    form: type[ServiceForm]
    next_form: type[ServiceForm] | None = None
    shown: tuple[str, ...] = ()
    inlines: ClassVar[Any] = (VersionInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        versions = Version.unscoped.filter(**{self.kind: OuterRef("pk")}, kind=self.kind).order_by("-number")
        annotated: QuerySet[Any] = rows.annotate(
            newest_number=Subquery(versions.values("number")[:1]),
            newest_state=Subquery(versions.values("state")[:1]),
        )
        return annotated

    @admin.display(description="Newest version", ordering="newest_number")
    def newest(self, row: Any) -> str:
        """Its number."""
        return str(row.newest_number)

    @display(description="State", ordering="newest_state", label=STATE_COLOURS)  # type: ignore[untyped-decorator]
    def status(self, row: Any) -> str:
        """Where the newest version stands."""
        return str(VersionState(row.newest_state).label)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = self._form_of(obj) or self.form
        # Without the settings of the training, which the form adds by itself.
        kwargs["fields"] = self.get_fields(request, obj)
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets: list[Any] = [(None, {"fields": self.get_fields(request, obj)})]
        form, saves = self._form_of(obj), obj is None or self.has_change_permission(request, obj)
        if saves and form is not None and issubclass(form, Knobbed):
            fieldsets.append(("Training settings", {"fields": form.more_names(), "classes": ["collapse"]}))
        return fieldsets

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        if obj is None:
            return tuple(self.form.base_fields)
        if self.next_form is None or not self.has_change_permission(request, obj):
            return self.shown
        return (*self.shown, *self.next_form.base_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return () if obj is None else self.shown

    def get_inlines(self, request: HttpRequest, obj: Any) -> list[Any]:
        return [] if obj is None else list(self.inlines)

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        if not isinstance(form, ServiceForm):
            raise TypeError("only services write to the version tree")
        version: Version = form.act(acting(request))
        obj.pk = version.owner.pk
        obj.refresh_from_db()
        told = format_html("The jobs of {} are queued.", linked(version))
        self.message_user(request, told, messages.SUCCESS)
        for warning in version_warnings(version):
            self.message_user(request, warning, messages.WARNING)

    def _form_of(self, obj: Any) -> type[ServiceForm] | None:
        """The form that adds one, or that saves this one."""
        return self.form if obj is None else self.next_form


@admin.register(Root)
class RootAdmin(Grown):
    """Adding a root registers it: jobs convert it and build its PLOT. Only its terms change afterwards."""

    kind = VersionKind.ROOT
    form = RootForm
    next_form = RootTermsForm
    shown = ("name", "source", "created_by", "created_at")
    inlines = (RootVersionInline,)
    list_display = ("name", "newest", "status", "source", "created_by", "created_at")
    list_select_related = ("created_by",)
    search_fields = ("name", "source")

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        if isinstance(form, RootTermsForm):
            form.act(acting(request))
        else:
            super().save_model(request, obj, form, change)


@admin.register(Domain)
class DomainAdmin(Grown):
    """Adding makes a domain of the platform's; saving one teaches it more text, as its next version."""

    kind = VersionKind.DOMAIN
    form = DomainForm
    next_form = DomainUpdateForm
    shown = ("name", "root", "tenant", "description", "created_by", "created_at")
    list_display = ("name", "root", "tenant", "newest", "status", "created_by", "created_at")
    list_filter = ("root", ("tenant", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("root", "tenant", "created_by")
    search_fields = ("name", "root__name", "tenant__slug")
    actions = ("grow", "compact")

    @admin.action(description="Grow from traffic", permissions=["operate"])
    def grow(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Make a further version of each, with a table of what its traffic missed."""
        self.each(request, rows, lambda row: domain_grow(domain=row, actor=acting(request)), "growing")

    @admin.action(description="Compact its chain of tables", permissions=["operate"])
    def compact(self, request: HttpRequest, rows: QuerySet[Domain]) -> None:
        """Make a further version of each, whose one table holds those it reads."""
        self.each(request, rows, lambda row: domain_compact(domain=row, actor=acting(request)), "compacting")


class AliasInline(Listing):
    """Where the aliases of an hPLM point."""

    model = Alias
    fields = ("alias", "version", "moved_by", "moved_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        aliases: QuerySet[Any] = super().get_queryset(request)
        return aliases.select_related("version__root", "version__hplm__tenant", "moved_by")

    @admin.display(description="Alias")
    def alias(self, alias: Alias) -> SafeString:
        """Which it is; its own page moves it."""
        return linked(alias)


@admin.register(Hplm)
class HplmAdmin(Grown):
    """Adding makes an hPLM of a tenant's; saving one teaches it from new data, as its next version."""

    kind = VersionKind.HPLM
    form = HplmForm
    next_form = HplmUpdateForm
    shown = ("name", "tenant", "task", "license", "created_by", "created_at", "deleted_at")
    inlines = (VersionInline, AliasInline)
    list_display = ("name", "tenant", "task", "newest", "status", "created_by", "created_at", "deleted_at")
    list_filter = (
        "task",
        ("tenant", admin.RelatedOnlyFieldListFilter),
        ("deleted_at", admin.EmptyFieldListFilter),
    )
    list_select_related = ("tenant", "created_by")
    search_fields = ("name", "tenant__slug")
    autocomplete_fields = ("tenant",)
    actions = ("stop_serving",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        living = obj is None or obj.deleted_at is None
        return living and super().has_change_permission(request, obj)

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
