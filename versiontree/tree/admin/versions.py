"""Admin pages of versions and artifacts."""

from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display

from tenants.base.admin.base import (
    AutocompleteFilterAdmin,
    ModelForm,
    NoAddOrChangeAdmin,
    ReadOnlyInline,
    admin_link,
    parse_ids,
    pretty_json,
    staff_user,
    text_lines,
)
from tenants.base.errors import HmiError
from tenants.base.file_sizes import file_size
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.transfer.archive.sources import zip_response
from versiontree.transfer.services.version_export import version_download
from versiontree.tree.admin.base import STATE_COLOURS, VERSION_NAME, ServiceAdmin, collapsed_json
from versiontree.tree.admin.forms import VersionForm
from versiontree.tree.models import Artifact, Version, VersionArtifact
from versiontree.tree.models.artifact import Role
from versiontree.tree.models.version import VersionKind, VersionState
from versiontree.tree.selectors.versions import version_warnings
from versiontree.tree.services.version_completion import version_retry


class JobInline(ReadOnlyInline):
    """The jobs that build a version, first to last."""

    model = Job
    ordering = ("created_at",)
    fields = ("job", "state", "stage", "attempt", "error_message", "started_at", "finished_at")

    @admin.display(description="Job")
    def job(self, job: Job) -> SafeString:
        """A link to the job."""
        return admin_link(job, job.get_kind_display())


class VersionArtifactInline(ReadOnlyInline):
    """The artifacts of a version."""

    model = VersionArtifact
    fields = ("part", "artifact_link", "size")

    @admin.display(description="Part")
    def part(self, link: VersionArtifact) -> str:
        """What the artifact is of the version."""
        return "Lookup table" if link.role == Role.PLOT else link.get_role_display()

    @admin.display(description="Artifact")
    def artifact_link(self, link: VersionArtifact) -> SafeString:
        """A link to the artifact."""
        return admin_link(link.artifact)

    @admin.display(description="Size")
    def size(self, link: VersionArtifact) -> str:
        """The size, in units."""
        return file_size(link.artifact.size)


@admin.register(Version)
class VersionAdmin(AutocompleteFilterAdmin, ServiceAdmin):
    """Versions. Saving one of a model sets its policy; nothing else changes. Failed ones can be retried."""

    form = VersionForm

    autocomplete_filters: ClassVar = {
        "fit": lambda rows, _: rows.filter(state=VersionState.READY, root__retired_at=None).exclude(
            kind=VersionKind.HPLM
        ),
        "owner": lambda rows, _: rows.filter(tenant=None),
        "to_serve": lambda rows, hplm: rows.filter(hplm__in=parse_ids(hplm), state=VersionState.READY),
    }

    ordering = ("-id",)  # newest first, from an index
    list_display = ("__str__", "kind", "status", "tenant", "parent", "created_at", "ready_at")
    list_filter = ("kind", "state", ("root", AutocompleteSelectFilter), ("tenant", AutocompleteSelectFilter))
    list_select_related = (
        "root",
        "domain__root",
        "hplm__tenant",
        "tenant",
        "parent__root",
        "parent__domain__root",
        "parent__hplm__tenant",
    )
    search_fields = ("root__name", "domain__name", "hplm__name", "tenant__slug", "digest")
    fields = (
        "kind",
        "root",
        "domain",
        "hplm",
        "tenant",
        "number",
        "parent",
        "status",
        "warnings",
        "alias_names",
        "policy",
        "digest",
        "corpus",
        "dataset",
        "created_by",
        "created_at",
        "ready_at",
        "shown_config",
        "shown_metrics",
    )
    readonly_fields = tuple(name for name in fields if name != "policy")
    inlines = (JobInline, VersionArtifactInline)
    actions = ("retry", "export", "export_branch")
    page_actions = actions

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Version | None = None) -> bool:
        answers = obj is None or obj.kind == VersionKind.HPLM
        return answers and super().has_change_permission(request, obj)

    def save_model(self, request: HttpRequest, obj: Version, form: ModelForm, change: bool) -> None:
        if isinstance(form, VersionForm):
            form.act(staff_user(request))

    def available_actions(self, row: Version) -> tuple[str, ...]:
        ready = row.state == VersionState.READY
        return (
            ("export", "export_branch") if ready else ("retry",) if row.state == VersionState.FAILED else ()
        )

    @display(description="State", ordering="state", label=STATE_COLOURS)  # type: ignore[untyped-decorator]
    def status(self, version: Version) -> str:
        """The state label, which the admin colours."""
        return version.get_state_display()

    @admin.display(description="Warnings", empty_value="None")
    def warnings(self, version: Version) -> SafeString:
        """One warning a line."""
        return text_lines(version_warnings(version))

    @admin.display(description="Aliases")
    def alias_names(self, version: Version) -> str:
        """The aliases that point at it."""
        return ", ".join(str(alias) for alias in version.aliases.all())

    @admin.display(description="Configuration (JSON)")
    def shown_config(self, version: Version) -> SafeString | None:
        """The configuration as JSON."""
        return collapsed_json(version.config)

    @admin.display(description="Metrics (JSON)")
    def shown_metrics(self, version: Version) -> SafeString | None:
        """The metrics as JSON."""
        return collapsed_json(version.metrics)

    @admin.action(description="Retry", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Version]) -> None:
        """Retry the first job that failed or was cancelled, and the jobs after it."""
        self.each(request, rows, lambda row: version_retry(version=row, actor=staff_user(request)), "retried")

    @admin.action(description="Export", permissions=["operate"])
    def export(self, request: HttpRequest, rows: QuerySet[Version]) -> StreamingHttpResponse | None:
        """Download one version."""
        return self._download(request, rows, branch=False)

    @admin.action(description="Export with base models", permissions=["operate"])
    def export_branch(self, request: HttpRequest, rows: QuerySet[Version]) -> StreamingHttpResponse | None:
        """Download one version with its domains and its root."""
        return self._download(request, rows, branch=True)

    def _download(
        self, request: HttpRequest, rows: QuerySet[Version], *, branch: bool
    ) -> StreamingHttpResponse | None:
        chosen = list(rows[:2])
        if len(chosen) != 1:
            self.message_user(request, "Export one version at a time.", messages.ERROR)
            return None
        try:
            return zip_response(version_download(version=chosen[0], actor=staff_user(request), branch=branch))
        except HmiError as error:
            self.message_user(request, error.message, messages.ERROR)
            return None


class ArtifactVersionInline(ReadOnlyInline):
    """The versions that use an artifact."""

    model = VersionArtifact
    fields = ("version_link", "role")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        links: QuerySet[Any] = super().get_queryset(request)
        return links.select_related(*VERSION_NAME)

    @admin.display(description="Version")
    def version_link(self, link: VersionArtifact) -> SafeString:
        """A link to the version."""
        return admin_link(link.version)


@admin.register(Artifact)
class ArtifactAdmin(NoAddOrChangeAdmin, ServiceAdmin):
    """Artifacts of the store."""

    list_display = ("kind", "versions", "shown_size", "created_at", "short_digest")
    list_filter = ("kind",)
    search_fields = ("digest",)
    fields = ("kind", "digest", "shown_size", "shown_files", "created_at")
    readonly_fields = fields
    inlines = (ArtifactVersionInline,)
    actions = ("verify",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        rows = {artifact.pk: artifact for artifact in changelist.result_list}
        links = VersionArtifact.unscoped.filter(artifact__in=list(rows)).order_by("artifact_id", "pk")
        counted = links.order_by().values_list("artifact_id").annotate(Count("pk"))
        for artifact, count in counted:
            rows[artifact].other_versions = count - 1
        for link in links.distinct("artifact_id").select_related(*VERSION_NAME):
            rows[link.artifact_id].first_version = link.version
        return changelist

    @admin.display(description="Versions")
    def versions(self, artifact: Any) -> SafeString | None:
        """The first version that uses it, and how many others do."""
        if not hasattr(artifact, "first_version"):
            return None
        others = f" and {artifact.other_versions:,} more" if artifact.other_versions else ""
        return format_html("<span>{}{}</span>", admin_link(artifact.first_version), others)

    @admin.display(description="Digest", ordering="digest")
    def short_digest(self, artifact: Artifact) -> str:
        """The beginning of the digest."""
        return artifact.digest[:12]

    @admin.display(description="Size", ordering="size")
    def shown_size(self, artifact: Artifact) -> str:
        """The size, in units."""
        return file_size(artifact.size)

    @admin.display(description="Files")
    def shown_files(self, artifact: Artifact) -> SafeString:
        """The files as JSON."""
        return pretty_json(artifact.files)

    @admin.action(description="Verify on disk", permissions=["operate"])
    def verify(self, request: HttpRequest, rows: QuerySet[Artifact]) -> None:
        """Compare the files on disk with the digests."""
        store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
        self.each(request, rows, lambda row: store.verify(row.kind, row.digest), "verified")
