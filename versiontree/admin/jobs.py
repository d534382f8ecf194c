"""Jobs and what happened to them."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from tenants.admin.base import Listing, NotByHand, ReadOnly, acting, linked, pretty_json
from versiontree.admin.base import Serviced, colours
from versiontree.models import Job, JobEvent
from versiontree.models.job import STATUS_STYLE
from versiontree.services.jobs import job_cancel, job_retry


class JobEventInline(Listing):
    """The job's history."""

    model = JobEvent
    fields = ("at", "kind", "message", "data")


@admin.register(Job)
class JobAdmin(NotByHand, Serviced):
    """Jobs, to watch, cancel and retry."""

    list_display = ("kind", "to_version", "tenant", "status", "percent", "stage", "attempt", "created_at")
    list_filter = ("state", "kind", ("tenant", admin.RelatedOnlyFieldListFilter), "created_at")
    list_select_related = ("version__root", "version__domain__root", "version__hplm__tenant", "tenant")
    search_fields = (
        "id",
        "tenant__slug",
        "version__hplm__name",
        "version__domain__name",
        "version__root__name",
        "error_code",
    )
    date_hierarchy = "created_at"
    fields = (
        "id",
        "kind",
        "version",
        "tenant",
        "after",
        "status",
        "percent",
        "stage",
        "eta_seconds",
        "attempt",
        "max_attempts",
        "worker",
        "lease_until",
        "heartbeat_at",
        "cancel_requested_at",
        "error_code",
        "error_message",
        "shown_params",
        "shown_metrics",
        "created_by",
        "created_at",
        "queued_at",
        "started_at",
        "finished_at",
        "traceback",
    )
    readonly_fields = fields
    inlines = (JobEventInline,)
    actions = ("cancel", "retry")

    @display(  # type: ignore[untyped-decorator]
        description="State",
        ordering="state",
        label=colours(STATUS_STYLE.values()),
    )
    def status(self, job: Job) -> str:
        """The word, in its colour."""
        return job.status_label

    @admin.display(description="Version", ordering="version")
    def to_version(self, job: Job) -> SafeString:
        """What it works for."""
        return linked(job.version)

    @admin.display(description="Progress", ordering="progress")
    def percent(self, job: Job) -> str:
        """How far it is."""
        return f"{job.progress:.0%}"

    @admin.display(description="Params")
    def shown_params(self, job: Job) -> SafeString:
        """What it works on, readable."""
        return pretty_json(job.params)

    @admin.display(description="Metrics")
    def shown_metrics(self, job: Job) -> SafeString:
        """What it measured, readable."""
        return pretty_json(job.metrics)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Cancel what has not begun; ask the rest to stop."""
        self.each(request, rows, lambda job: job_cancel(job=job, actor=acting(request)), "cancelled or asked")

    @admin.action(description="Retry", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run what failed or was cancelled again."""
        self.each(request, rows, lambda job: job_retry(job=job, actor=acting(request)), "retried")


@admin.register(JobEvent)
class JobEventAdmin(ReadOnly):
    """Everything that happened to jobs."""

    list_display = ("at", "to_job", "kind", "message")
    list_filter = ("kind", "at")
    list_select_related = ("job",)
    search_fields = ("job__id", "message")

    @admin.display(description="Job", ordering="job")
    def to_job(self, event: JobEvent) -> SafeString:
        """What it happened to."""
        return linked(event.job)
