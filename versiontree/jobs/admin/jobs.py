"""Jobs and what happened to them."""

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.safestring import SafeString
from django_htmx.http import HttpResponseClientRefresh
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import display

from tenants.base.admin.base import Listing, NotByHand, ReadOnly, acting, linked, linked_list, to_the_second
from tenants.base.admin.confirm import typed_name
from versiontree.jobs.models import STATUS_STYLE, Job, JobEvent, JobShard, JobState
from versiontree.jobs.selectors import queue_places
from versiontree.jobs.services.requests import PLACES, job_cancel, job_prioritise, job_requeue, job_retry
from versiontree.tree.admin.base import Serviced, colours
from versiontree.tree.admin.facts import folded, on_a_line


class JobEventInline(Listing):
    """The job's history, without the figures that it measured on its way: those have a list of their own."""

    model = JobEvent
    fields = ("moment", "kind", "message")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        events: QuerySet[Any] = super().get_queryset(request).exclude(kind="metrics")
        return events

    @admin.display(description="At (UTC)")
    def moment(self, event: JobEvent) -> str:
        """To the second."""
        return to_the_second(event.at)


@admin.register(Job)
class JobAdmin(NotByHand, Serviced):
    """Jobs, to watch, cancel and retry."""

    list_display = (
        "kind",
        "to_version",
        "tenant",
        "status",
        "percent",
        "stage",
        "place",
        "attempt",
        "created_at",
    )
    list_filter = ("state", "kind", "priority", ("tenant", AutocompleteSelectFilter), "created_at")
    list_filter_submit = True
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
        "priority",
        "attempt",
        "max_attempts",
        "worker",
        "lease_until",
        "heartbeat_at",
        "cancel_requested_at",
        "error_code",
        "shown_params",
        "shown_metrics",
        "all_events",
        "created_by",
        "created_at",
        "queued_at",
        "started_at",
        "finished_at",
        "traceback",
    )
    readonly_fields = fields
    inlines = (JobEventInline,)
    actions = ("cancel", "retry", "requeue", "first", "usual", "later", "last")
    on_page = actions
    change_form_before_template = "jobs/admin/job_now.html"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """The page, or to htmx the part of it that changes; once the job has ended, the whole page anew."""
        job = self.get_object(request, unquote(object_id))
        if job is None or not getattr(request, "htmx", False):
            now = _now(job) if job else {}
            return super().change_view(request, object_id, form_url, {**(extra_context or {}), **now})
        if not self.has_view_permission(request, job):
            raise PermissionDenied
        page = render(request, self.change_form_before_template, {"original": job, **_now(job)})
        return page if job.is_active else HttpResponseClientRefresh()

    def offered(self, row: Job) -> tuple[str, ...]:
        priorities = tuple(word for word, number in PLACES.items() if number != row.priority)
        return {
            JobState.WAITING: ("cancel", *priorities),
            JobState.QUEUED: ("cancel", "requeue", *priorities),
            JobState.RUNNING: ("cancel", "requeue"),
            JobState.SUCCEEDED: (),
        }.get(JobState(row.state), ("retry",))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        places = queue_places(changelist.result_list)
        for job in changelist.result_list:
            job.queue_place = places.get(job.pk)
        return changelist

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

    @admin.display(description="Place", ordering="priority", empty_value="")
    def place(self, job: Any) -> str | None:
        """Where it stands among all that are queued, and its priority where that is not the usual."""
        if not job.is_active:
            return None
        told = [str(job.queue_place)] if job.queue_place else []
        word = {number: word for word, number in PLACES.items()}.get(job.priority, str(job.priority))
        return ", ".join([*told, *([word] if job.priority != PLACES["usual"] else [])]) or None

    @admin.display(description="Params")
    def shown_params(self, job: Job) -> SafeString | None:
        """What it works on, readable."""
        return folded(job.params)

    @admin.display(description="Metrics")
    def shown_metrics(self, job: Job) -> SafeString | None:
        """What it measured, readable."""
        return folded(job.metrics)

    @admin.display(description="Events")
    def all_events(self, job: Job) -> SafeString:
        """Where they are listed, those with figures too."""
        return linked_list(JobEvent, f"q={job.pk}", "All of them, with what was measured")

    @admin.action(description="Cancel", permissions=["operate"])
    @typed_name("cancel", told="Those that run are stopped.", of_one=False)
    def cancel(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Cancel what has not begun; ask the rest to stop."""
        self.each(request, rows, lambda job: job_cancel(job=job, actor=acting(request)), "cancelled or asked")

    @admin.action(description="Retry", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Run what failed or was cancelled again."""
        self.each(request, rows, lambda job: job_retry(job=job, actor=acting(request)), "retried")

    @admin.action(description="Requeue", permissions=["operate"])
    def requeue(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Put running ones back into the queue, retry what ended badly, announce queued ones again."""
        self.each(request, rows, lambda job: job_requeue(job=job, actor=acting(request)), "requeued")

    @admin.action(description="Priority: first", permissions=["operate"])
    def first(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """Before all others."""
        self._place(request, rows, "first")

    @admin.action(description="Priority: usual", permissions=["operate"])
    def usual(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """As most are."""
        self._place(request, rows, "usual")

    @admin.action(description="Priority: later", permissions=["operate"])
    def later(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """After the usual ones."""
        self._place(request, rows, "later")

    @admin.action(description="Priority: last", permissions=["operate"])
    def last(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        """When nothing else waits."""
        self._place(request, rows, "last")

    def _place(self, request: HttpRequest, rows: QuerySet[Job], word: str) -> None:
        actor, priority = acting(request), PLACES[word]
        self.each(
            request, rows, lambda job: job_prioritise(job=job, priority=priority, actor=actor), f"now {word}"
        )


def _now(job: Job) -> dict[str, Any]:
    """What changes while one looks."""
    left = timezone.now() + timedelta(seconds=job.eta_seconds) if job.eta_seconds is not None else None
    return {
        "state_colour": STATUS_STYLE[JobState(job.state)][1],
        "percent": f"{100 * job.progress:.0f}",
        "left": left if job.state == JobState.RUNNING else None,
    }


@admin.register(JobEvent)
class JobEventAdmin(ReadOnly):
    """Everything that happened to jobs."""

    list_display = ("moment", "to_job", "kind", "message", "figures")
    list_filter = ("kind", "at")
    list_select_related = ("job",)
    search_fields = ("job__id", "message")
    show_full_result_count = False

    @admin.display(description="At (UTC)", ordering="at")
    def moment(self, event: JobEvent) -> str:
        """To the second."""
        return to_the_second(event.at)

    @admin.display(description="Figures")
    def figures(self, event: JobEvent) -> str:
        """What was measured, as far as it fits on a line."""
        return on_a_line(event.data)

    @admin.display(description="Job", ordering="job")
    def to_job(self, event: JobEvent) -> SafeString:
        """What it happened to."""
        return linked(event.job)


@admin.register(JobShard)
class JobShardAdmin(ReadOnly):
    """Which part of which job is done, by whom, and what became of it."""

    list_display = ("to_job", "stage", "number", "state", "worker", "attempts", "error_code")
    list_filter = ("state", "stage")
    list_select_related = ("job",)
    search_fields = ("job__id", "worker", "error_code")

    @admin.display(description="Job", ordering="job")
    def to_job(self, shard: JobShard) -> SafeString:
        """What it is a part of."""
        return linked(shard.job)
