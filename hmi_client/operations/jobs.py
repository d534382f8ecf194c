"""Jobs: watch, cancel, retry."""

from collections.abc import Callable

from hmi_client.flow import Call, Flow, Item, Pause, ask
from hmi_client.requests import get, pages, path_of, post
from hmi_client.responses import Job, JobEvent, from_json

POLL_S = 1.0
Progress = Callable[[Job], None]
"""Told how a job stands."""


def jobs(state: str | None = None) -> Flow[None]:
    """The tenant's jobs, newest first."""
    return (yield from pages(Job, "jobs", {"state": state}))


def job(job_id: str) -> Flow[Job]:
    """One job."""
    return (yield from get(Job, path_of("jobs", job_id)))


def job_tail(
    job_id: str, *, after: int = 0, poll_s: float = POLL_S, on_progress: Progress | None = None
) -> Flow[None]:
    """Give what happened to a job since an event, then what happens, until the job has ended."""
    while True:
        now = yield from job(job_id)  # first: nothing follows upon an end that was seen
        if on_progress:
            on_progress(now)
        while events := (yield from _events(job_id, after)):
            for event in events:
                yield Item(event)
            after = events[-1].id
        if now.has_ended:
            return
        yield Pause(poll_s)


def job_cancel(job_id: str) -> Flow[Job]:
    """Cancel a job; a running one is asked to stop."""
    return from_json(Job, (yield from post(path_of("jobs", job_id, "cancel"))))


def job_retry(job_id: str) -> Flow[Job]:
    """Run a failed or cancelled job again."""
    return from_json(Job, (yield from post(path_of("jobs", job_id, "retry"))))


def _events(job_id: str, after: int) -> Flow[list[JobEvent]]:
    response = yield from ask(Call("GET", path_of("jobs", job_id, "events"), {"after": after}))
    return [from_json(JobEvent, event) for event in response.json()]
