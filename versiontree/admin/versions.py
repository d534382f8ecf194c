"""Versions and their artifacts."""

from pathlib import Path

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from tenants.admin.base import Listing, NotByHand, ReadOnly, acting, pretty_json
from versiontree.admin.base import Serviced
from versiontree.artifacts import ArtifactStore
from versiontree.models import Artifact, Version, VersionArtifact
from versiontree.services.jobs import version_retry


class VersionArtifactInline(Listing):
    """What a version is made of."""

    model = VersionArtifact
    fields = ("role", "artifact")
    readonly_fields = fields


@admin.register(Version)
class VersionAdmin(NotByHand, Serviced):
    """The nodes of the tree. They never change; a failed one can be tried again."""

    list_display = ("__str__", "kind", "state", "tenant", "parent", "short_digest", "created_at", "ready_at")
    list_filter = ("kind", "state", "root", ("tenant", admin.RelatedOnlyFieldListFilter))
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
        "state",
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
    inlines = (VersionArtifactInline,)
    actions = ("retry",)

    @admin.display(description="Digest", ordering="digest")
    def short_digest(self, version: Version) -> str:
        """The beginning of the digest."""
        return version.digest[:12]

    @admin.display(description="Config")
    def shown_config(self, version: Version) -> SafeString:
        """The choices it was made with, readable."""
        return pretty_json(version.config)

    @admin.display(description="Metrics")
    def shown_metrics(self, version: Version) -> SafeString:
        """What its jobs measured, readable."""
        return pretty_json(version.metrics)

    @admin.action(description="Retry what failed", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Version]) -> None:
        """Run the first job that failed or was cancelled again, and the rest of the chain."""
        self.each(request, rows, lambda row: version_retry(version=row, actor=acting(request)), "retried")


@admin.register(Artifact)
class ArtifactAdmin(NotByHand, Serviced):
    """What is in the artifact store."""

    list_display = ("kind", "digest", "size", "created_at")
    list_filter = ("kind",)
    search_fields = ("digest",)
    fields = ("kind", "digest", "size", "shown_files", "created_at")
    readonly_fields = fields
    actions = ("verify",)

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
class VersionArtifactAdmin(ReadOnly):
    """Which version uses which artifact."""

    list_display = ("version", "role", "artifact")
    list_filter = ("role",)
    list_select_related = ("version__root", "version__domain__root", "version__hplm__tenant", "artifact")
    search_fields = ("artifact__digest", "version__hplm__name", "version__domain__name")
