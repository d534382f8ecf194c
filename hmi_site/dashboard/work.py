"""Numbers of jobs and requests: now, today, and in the last two weeks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import TruncDate
from django.utils import timezone

from tenants.usage.models import UsageSum
from versiontree.jobs.models import JOB_STATE_COLOURS, Job, JobKind, JobState

DAYS: Final = 14
MAX_RUNNING_SHOWN: Final = 8
REQUEST_COLOURS: Final = {"answered": "primary", "failed": "danger", "refused": "warning"}
STALLED_AFTER: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class ChartPart:
    """A part of a bar: its share (0 to 1) and colour."""

    share: float
    colour: str

    @property
    def percent(self) -> str:
        """The share in percent, for CSS."""
        return f"{100 * self.share:.2f}"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart. ``title`` is its text for tooltips and screen readers."""

    label: str
    parts: tuple[ChartPart, ...]
    title: str


@dataclass(frozen=True, slots=True)
class Jobs:
    """Numbers of jobs by state. Days are UTC. ``is_stalled``: a job is queued for minutes while none of its
    queue runs."""

    running: int
    queued: int
    waiting: int
    done_today: int
    failed_today: int
    is_stalled: bool
    running_jobs: tuple[Job, ...]


def jobs_now() -> Jobs:
    """The current numbers of jobs (five queries)."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    active = Counter(dict(_counted(Job.shown.filter(state__in=["waiting", "queued", "running"]))))
    ended = Counter(dict(_counted(Job.shown.filter(finished_at__gte=today))))
    late = Job.shown.filter(state=JobState.QUEUED, queued_at__lt=timezone.now() - STALLED_AFTER)
    running = Job.shown.filter(state=JobState.RUNNING).order_by("started_at")
    related = ("version__root", "version__domain__root", "version__hplm__tenant", "tenant")
    return Jobs(
        running=active["running"],
        queued=active["queued"],
        waiting=active["waiting"],
        done_today=ended["succeeded"],
        failed_today=ended["failed"],
        is_stalled=bool(_queues(late) - _queues(running)),
        running_jobs=tuple(running.select_related(*related)[:MAX_RUNNING_SHOWN]),
    )


def _queues(jobs: QuerySet[Job]) -> set[str]:
    """The queues of these jobs."""
    return {JobKind(kind).queue for kind in jobs.order_by().values_list("kind", flat=True).distinct()}


def jobs_by_day() -> list[Bar]:
    """Finished jobs of the last two weeks, a bar per day (one query)."""
    days = _days()
    ended = Job.shown.filter(finished_at__date__gte=days[0]).order_by()
    rows = ended.values_list(TruncDate("finished_at"), "state").annotate(Count("pk"))
    counts: dict[date, Counter[str]] = {day: Counter() for day in days}
    for day, state, count in rows:
        if day in counts:
            counts[day][state] += count
    top = max((sum(by_state.values()) for by_state in counts.values()), default=0) or 1
    states = (JobState.SUCCEEDED, JobState.CANCELLED, JobState.FAILED)
    return [
        Bar(
            f"{day:%-d %b}",
            tuple(
                ChartPart(by_state[state] / top, JOB_STATE_COLOURS[state])
                for state in states
                if by_state[state]
            ),
            _day_title(day, {state.label.lower(): by_state[state] for state in states}),
        )
        for day, by_state in counts.items()
    ]


def requests_by_day() -> list[Bar]:
    """Infer requests of the last two weeks, a bar per day (one query)."""
    days = _days()
    rows = UsageSum.unscoped.filter(day__gte=days[0]).order_by().values_list("day")
    sums = rows.annotate(Sum("requests"), Sum("failed"), Sum("refused"))
    totals = {day: (total - failed, failed, refused) for day, total, failed, refused in sums}
    top = max(map(sum, totals.values()), default=0) or 1
    bars = []
    for day in days:
        counts = dict(zip(REQUEST_COLOURS, totals.get(day, (0, 0, 0)), strict=True))
        parts = (ChartPart(count / top, REQUEST_COLOURS[name]) for name, count in counts.items() if count)
        bars.append(Bar(f"{day:%-d %b}", tuple(parts), _day_title(day, counts)))
    return bars


def _counted(rows: QuerySet[Job]) -> Iterable[tuple[str, int]]:
    return rows.order_by().values_list("state").annotate(Count("pk"))


def _days() -> list[date]:
    today = datetime.now(UTC).date()
    return [today - timedelta(days=back) for back in reversed(range(DAYS))]


def _day_title(day: date, counts: Mapping[str, int]) -> str:
    parts = [f"{count:,} {word}" for word, count in counts.items() if count]
    return f"{day:%-d %B}: {', '.join(parts) or 'none'}"
