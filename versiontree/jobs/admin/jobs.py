"""Admin pages of jobs."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString
from django_htmx.http import HttpResponseClientRefresh
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display

from tenants.base.admin.base import (
    NoAddOrChangeAdmin,
    ReadOnlyInline,
    admin_link,
    format_timestamp,
    staff_user,
)
from tenants.base.admin.confirm import require_typed_name
from versiontree.jobs.models import JOB_STATE_COLOURS, Job, JobEvent, JobState
from versiontree.jobs.selectors import queue_positions
from versiontree.jobs.services.control import PRIORITIES, job_cancel, job_prioritise, job_requeue, job_retry
from versiontree.tree.admin.base import VERSION_NAME, ServiceAdmin, collapsed_json, colours


class JobEventInline(ReadOnlyInline):
    """The job's history without its metrics, which the tenant's page draws."""

    model = JobEvent
    fields = ("moment", "kind", "message")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        events: QuerySet[Any] = super().get_queryset(request).exclude(kind="metrics")
        return events

    @admin.display(description="At (UTC)")
    def moment(self, event: JobEvent) -> str:
        """The time, to the second."""
        return format_timestamp(event.at)


@admin.register(Job)
class JobAdmin(NoAddOrChangeAdmin, ServiceAdmin):
    """List, show, cancel, retry and prioritise jobs."""

    list_display = (
        "kind",
        "to_version",
        "tenant",
        "status",
        "percent",
        "stage",
        "queue_place",
        "created_at",
    )
    list_filter = ("state", "kind", "priority", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
    list_select_related = (*VERSION_NAME, "tenant")
    search_fields = (
        "id",
        "tenant__slug",
        "version__hplm__name",
        "version__domain__name",
        "version__root__name",
        "error_code",
    )
    fields = (
        "kind",
        "version",
        "tenant",
        "after",
        "priority",
        "attempt",
        "max_attempts",
        "worker",
        "lease_expires_at",
        "heartbeat_at",
        "cancel_requested_at",
        "error_code",
        "shown_params",
        "shown_metrics",
        "created_by",
        "created_at",
        "queued_at",
        "started_at",
        "finished_at",
        "traceback",
        "id",
    )
    readonly_fields = fields
    inlines = (JobEventInline,)
    actions = ("cancel", "retry", "requeue", "high", "normal", "low", "lowest")
    page_actions = actions
    change_form_before_template = "jobs/admin/job_progress.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without background jobs."""
        jobs: QuerySet[Any] = super().get_queryset(request).filter(version__isnull=False)
        return jobs

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page. For htmx: its progress panel, or a refresh of the page once the job has ended."""
        job = self.get_object(request, unquote(object_id))
        if job is None or not getattr(request, "htmx", False):
            progress = _progress_context(job) if job else {}
            return super().change_view(request, object_id, form_url, {**(extra_context or {}), **progress})
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        page = render(request, self.change_form_before_template, {"original": job, **_progress_context(job)})
        return page if job.is_active else HttpResponseClientRefresh()

    def available_actions(self, row: Job) -> tuple[str, ...]:
        priorities = tuple(word for word, number in PRIORITIES.items() if number != row.priority)
        return {
            JobState.WAITING: ("cancel", *priorities),
            JobState.QUEUED: ("cancel", "requeue", *priorities),
            JobState.RUNNING: ("cancel", "requeue"),
            JobState.SUCCEEDED: (),
        }.get(JobState(row.state), ("retry",))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        positions = queue_positions(changelist.result_list)
        for job in changelist.result_list:
            job.queue_position = positions.get(job.pk)
        return changelist

    @display(  # type: ignore[untyped-decorator]
        description="State",
        ordering="state",
        label=colours((state.label, colour) for state, colour in JOB_STATE_COLOURS.items()),
    )
    def status(self, job: Job) -> str:
        """The label, which the admin colours."""
        return job.get_state_display()

    @admin.display(description="Version", ordering="version")
    def to_version(self, job: Job) -> SafeString:
        """The version that the job builds."""
        return admin_link(job.version)

    @admin.display(description="Progress", ordering="progress")
    def percent(self, job: Job) -> str:
        """Progress in percent."""
        return f"{job.progress:.0%}"

    @admin.display(description="Queue position", ordering="priority", empty_value="")
    def queue_place(self, job: Any) -> str | None:
        """The position in the queue, and the priority unless it is normal."""
        if not job.is_active:
            return None
        position = [str(job.queue_position)] if job.queue_position else []
        name = {number: name for name, number in PRIORITIES.items()}.get(job.priority, str(job.priority))
        return ", ".join([*position, *([name] if job.priority != PRIORITIES["normal"] else [])]) or None

    @admin.display(description="Parameters")
    def shown_params(self, job: Job) -> SafeString | None:
        """The parameters as JSON."""
        return collapsed_json(job.params)

    @admin.display(description="Metrics")
    def shown_metrics(self, job: Job) -> SafeString | None:
        """The metrics as JSON."""
        return collapsed_json(job.metrics)

    @admin.action(description="Cancel", permissions=["operate"])
    @require_typed_name("cancel", warning="Running jobs are stopped.", confirm_single=False)
    def cancel(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Cancel jobs that have not started, and ask running ones to stop."""
        self.each(
            request,
            rows,
            lambda job: job_cancel(job=job, actor=staff_user(request)),
            "canceled",
        )

    @admin.action(description="Retry", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run failed or canceled jobs again."""
        self.each(request, rows, lambda job: job_retry(job=job, actor=staff_user(request)), "retried")

    @admin.action(description="Requeue", permissions=["operate"])
    def requeue(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Queue running jobs again, retry failed and canceled ones, and send queued ones a new message."""
        self.each(request, rows, lambda job: job_requeue(job=job, actor=staff_user(request)), "requeued")

    @admin.action(description="Priority: high", permissions=["operate"])
    def high(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run jobs before those of normal priority."""
        self._prioritise(request, rows, "high")

    @admin.action(description="Priority: normal", permissions=["operate"])
    def normal(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Give jobs the default priority."""
        self._prioritise(request, rows, "normal")

    @admin.action(description="Priority: low", permissions=["operate"])
    def low(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run jobs after those of normal priority."""
        self._prioritise(request, rows, "low")

    @admin.action(description="Priority: lowest", permissions=["operate"])
    def lowest(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run jobs when no other is queued."""
        self._prioritise(request, rows, "lowest")

    def _prioritise(self, request: HttpRequest, rows: QuerySet[Job], name: str) -> None:
        actor, priority = staff_user(request), PRIORITIES[name]
        self.each(
            request,
            rows,
            lambda job: job_prioritise(job=job, priority=priority, actor=actor),
            f"set to {name} priority",
        )


def _progress_context(job: Job) -> dict[str, Any]:
    """Template context of the progress panel."""
    return {
        "state_colour": JOB_STATE_COLOURS[JobState(job.state)],
        "percent": f"{100 * job.progress:.0f}",
        "ends_at": job.expected_at if job.state == JobState.RUNNING else None,
    }
