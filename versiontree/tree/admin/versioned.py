"""Base classes of the admin pages of roots, domains and models, whose forms create versions."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from tenants.base.admin.base import (
    ModelForm,
    ReadOnlyInline,
    admin_link,
    html_lines,
    once_per_row,
    staff_user,
    text_lines,
)
from versiontree.jobs.models import Job, JobState
from versiontree.tree.admin.base import STATE_COLOURS, ServiceAdmin, ServiceForm
from versiontree.tree.admin.dependents import dependent_links
from versiontree.tree.models import Domain, Hplm, Root, RootKind, Version
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.bases import base_root_kind
from versiontree.tree.selectors.versions import version_warnings, versions_of
from versiontree.tree.training_fields import TrainingSettingsForm


class VersionInline(ReadOnlyInline):
    """The versions of a root, domain or model, newest first."""

    model = Version
    ordering = ("-number",)
    fields = ("version", "state", "parent_version", "created_at", "ready_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        parents = ("parent__root", "parent__domain__root", "parent__hplm__tenant")
        versions: QuerySet[Any] = (
            super().get_queryset(request).select_related("root", "domain__root", "hplm__tenant", *parents)
        )
        return versions

    @admin.display(description="Version")
    def version(self, version: Version) -> SafeString:
        """A link to the version."""
        return admin_link(version)

    @admin.display(description="Parent")
    def parent_version(self, version: Version) -> SafeString | None:
        """A link to the parent version."""
        return admin_link(version.parent) if version.parent else None


class VersionedAdmin(ServiceAdmin):
    """An owner of versions: adding one starts the jobs of its first version, saving it those of the next."""

    kind: VersionKind
    form: type[ServiceForm]
    next_form: type[ServiceForm] | None = None
    adds: str
    """The label of the add button, which starts jobs."""
    saves: str = "Save"
    shown: tuple[str, ...] = ()
    inlines: ClassVar[Any] = (VersionInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        versions = Version.unscoped.filter(
            **{self.kind.owner_field: OuterRef("pk")}, kind=self.kind
        ).order_by("-number")
        annotated: QuerySet[Any] = rows.annotate(
            newest_number=Subquery(versions.values("number")[:1]),
            newest_state=Subquery(versions.values("state")[:1]),
        )
        return annotated

    @admin.display(description="Newest version", ordering="newest_number")
    def newest(self, row: Any) -> str:
        """The number of the newest version."""
        return str(row.newest_number)

    @admin.display(description="Jobs", empty_value="None")
    @once_per_row
    def progress(self, row: Any) -> SafeString:
        """The unfinished and failed jobs of the newest version."""
        return job_lines(row)

    @admin.display(description="Dependents", empty_value="None")
    @once_per_row
    def dependents(self, row: Any) -> SafeString:
        """Links to the direct dependents."""
        return text_lines(dependent_links(row))

    @display(description="State", ordering="newest_state", label=STATE_COLOURS)  # type: ignore[untyped-decorator]
    def status(self, row: Any) -> str:
        """The state of the newest version."""
        return str(VersionState(row.newest_state).label)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs["form"] = self._form_of(obj) or self.form
        # Without the training settings, which the form adds itself.
        kwargs["fields"] = self.get_fields(request, obj)
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets: list[Any] = [(None, {"fields": self.get_fields(request, obj)})]
        form, saves = self._form_of(obj), obj is None or self.has_change_permission(request, obj)
        if saves and form is not None and issubclass(form, TrainingSettingsForm):
            root = RootKind.ENCODER if obj is None else base_root_kind(obj)
            names = form.setting_names(root)
            fieldsets.append(("Training settings", {"fields": names, "classes": ["collapse"]}))
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

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *more: Any, **named: Any
    ) -> HttpResponse:
        # Saving starts jobs, so there is nothing to continue editing.
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        context["save_label"] = self.saves if context.get("original") else self.adds
        return super().render_change_form(request, context, *more, **named)

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        if not isinstance(form, ServiceForm):
            raise TypeError("only services write to the version tree")
        version: Version = form.act(staff_user(request))
        obj.pk = version.owner.pk
        obj.refresh_from_db()
        message = format_html("The jobs of {} are queued.", admin_link(version))
        self.message_user(request, message, messages.SUCCESS)
        for warning in version_warnings(version):
            self.message_user(request, warning, messages.WARNING)

    def _form_of(self, obj: Any) -> type[ServiceForm] | None:
        """The form that adds one, or that saves this one."""
        return self.form if obj is None else self.next_form


def job_lines(owner: Root | Domain | Hplm) -> SafeString:
    """The jobs of its newest version that have not succeeded, a line each."""
    version = versions_of(owner).first()
    jobs = Job.unscoped.filter(version=version).exclude(state=JobState.SUCCEEDED).order_by("created_at")
    return html_lines(_error_text(job) for job in jobs)


def _error_text(job: Job) -> SafeString:
    parts = [job.get_state_display().lower()]
    if job.state == JobState.RUNNING:
        parts += [f"{job.progress:.0%}", *([job.stage] if job.stage else [])]
    if job.error_message:
        parts.append(job.error_message)
    return format_html("{}: {}", admin_link(job, job.get_kind_display()), ", ".join(parts))
