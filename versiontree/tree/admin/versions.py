"""Versions and their artifacts."""

from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display

from tenants.base.admin.base import (
    AutocompleteFilterAdmin,
    NoAddOrChangeAdmin,
    ReadOnlyAdmin,
    ReadOnlyInline,
    admin_link,
    parse_ids,
    pretty_json,
    staff_user,
)
from tenants.base.errors import HmiError
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.transfer.archive.sources import zip_response
from versiontree.transfer.services.version_export import version_download
from versiontree.tree.admin.base import STATE_COLOURS, ServiceAdmin, collapsed_json
from versiontree.tree.models import Artifact, Coverage, Evaluation, Version, VersionArtifact
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
        """What it does."""
        return admin_link(job, job.get_kind_display())


class VersionArtifactInline(ReadOnlyInline):
    """What a version is made of."""

    model = VersionArtifact
    fields = ("role", "made", "size")

    @admin.display(description="Artifact")
    def made(self, link: VersionArtifact) -> SafeString:
        """Which it is."""
        return admin_link(link.artifact)

    @admin.display(description="Size")
    def size(self, link: VersionArtifact) -> str:
        """How big it is."""
        return filesizeformat(link.artifact.size)


@admin.register(Version)
class VersionAdmin(NoAddOrChangeAdmin, AutocompleteFilterAdmin, ServiceAdmin):
    """The nodes of the tree. They never change; a failed one can be tried again."""

    autocomplete_filters: ClassVar = {
        "fit": lambda rows, _: rows.filter(state=VersionState.READY).exclude(kind=VersionKind.HPLM),
        "of": lambda rows, _: rows.filter(tenant=None),
        "to_serve": lambda rows, hplm: rows.filter(hplm__in=parse_ids(hplm), state=VersionState.READY),
    }

    ordering = ("-id",)  # by when they were made, and from an index
    list_display = ("__str__", "kind", "status", "tenant", "parent", "short_digest", "created_at", "ready_at")
    list_filter = ("kind", "state", ("root", AutocompleteSelectFilter), ("tenant", AutocompleteSelectFilter))
    list_filter_submit = True
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
        "warned",
        "aliased",
        "digest",
        "corpus",
        "dataset",
        "shown_config",
        "shown_metrics",
        "created_by",
        "created_at",
        "ready_at",
    )
    readonly_fields = fields
    inlines = (JobInline, VersionArtifactInline)
    actions = ("retry", "export", "export_branch")
    page_actions = actions

    def available_actions(self, row: Version) -> tuple[str, ...]:
        ready = row.state == VersionState.READY
        return (
            ("export", "export_branch") if ready else ("retry",) if row.state == VersionState.FAILED else ()
        )

    @display(description="State", ordering="state", label=STATE_COLOURS)  # type: ignore[untyped-decorator]
    def status(self, version: Version) -> str:
        """The word, in its colour."""
        return version.get_state_display()

    @admin.display(description="Warnings", empty_value="None")
    def warned(self, version: Version) -> SafeString:
        """What those who made it should know, a line each."""
        return format_html_join(mark_safe("<br>"), "{}", ((told,) for told in version_warnings(version)))

    @admin.display(description="Aliases")
    def aliased(self, version: Version) -> str:
        """The names that mean it."""
        return ", ".join(str(alias) for alias in version.aliases.all())

    @admin.display(description="Digest", ordering="digest")
    def short_digest(self, version: Version) -> str:
        """The beginning of the digest."""
        return version.digest[:12]

    @admin.display(description="Config")
    def shown_config(self, version: Version) -> SafeString:
        """The choices it was made with, readable."""
        return pretty_json(version.config)

    @admin.display(description="Metrics")
    def shown_metrics(self, version: Version) -> SafeString | None:
        """What its jobs measured, readable."""
        return collapsed_json(version.metrics)

    @admin.action(description="Retry what failed", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Version]) -> None:
        """Run the first job that failed or was cancelled again, and the rest of the chain."""
        self.each(request, rows, lambda row: version_retry(version=row, actor=staff_user(request)), "retried")

    @admin.action(description="Export as a zip file", permissions=["operate"])
    def export(self, request: HttpRequest, rows: QuerySet[Version]) -> StreamingHttpResponse | None:
        """Download one version."""
        return self._download(request, rows, branch=False)

    @admin.action(description="Export with all it stands on", permissions=["operate"])
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
    """The versions that an artifact is part of."""

    model = VersionArtifact
    fields = ("of", "role")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        links: QuerySet[Any] = super().get_queryset(request)
        return links.select_related("version__root", "version__domain__root", "version__hplm__tenant")

    @admin.display(description="Version")
    def of(self, link: VersionArtifact) -> SafeString:
        """Which it is."""
        return admin_link(link.version)


@admin.register(Artifact)
class ArtifactAdmin(NoAddOrChangeAdmin, ServiceAdmin):
    """What is in the artifact store."""

    list_display = ("digest", "kind", "shown_size", "created_at")
    list_filter = ("kind",)
    search_fields = ("digest",)
    fields = ("kind", "digest", "shown_size", "shown_files", "created_at")
    readonly_fields = fields
    inlines = (ArtifactVersionInline,)
    actions = ("verify",)

    @admin.display(description="Size", ordering="size")
    def shown_size(self, artifact: Artifact) -> str:
        """How big it is, readable."""
        return filesizeformat(artifact.size)

    @admin.display(description="Files")
    def shown_files(self, artifact: Artifact) -> SafeString:
        """Its files, readable."""
        return pretty_json(artifact.files)

    @admin.action(description="Verify on disk", permissions=["operate"])
    def verify(self, request: HttpRequest, rows: QuerySet[Artifact]) -> None:
        """Read every file again and compare."""
        store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
        self.each(request, rows, lambda row: store.verify(row.kind, row.digest), "verified")


@admin.register(VersionArtifact)
class VersionArtifactAdmin(ReadOnlyAdmin):
    """Which version uses which artifact."""

    list_display = ("version", "role", "artifact")
    list_filter = ("role",)
    list_select_related = ("version__root", "version__domain__root", "version__hplm__tenant", "artifact")
    search_fields = ("artifact__digest", "version__hplm__name", "version__domain__name")


@admin.register(Coverage)
class CoverageAdmin(NoAddOrChangeAdmin):
    """What was measured; what is deleted is measured again when its page is looked at."""

    list_display = (
        "version",
        "corpus",
        "dataset",
        "tenant",
        "trigrams",
        "bigrams",
        "unigrams",
        "error_message",
    )
    list_select_related = (
        "tenant",
        "corpus__tenant",
        "dataset__tenant",
        "version__root",
        "version__domain__root",
        "version__hplm__tenant",
    )
    search_fields = ("corpus__name", "dataset__name", "tenant__slug")


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    """Which answers are kept; the page of the version shows them."""

    list_display = ("version", "dataset_name", "tenant", "artifact", "evaluated_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "evaluated_at")
    list_filter_submit = True
    list_select_related = (
        "tenant",
        "artifact",
        "version__hplm__tenant",
        "version__root",
        "version__domain__root",
    )
    search_fields = ("dataset_name", "test_sha256", "tenant__slug", "version__hplm__name")
