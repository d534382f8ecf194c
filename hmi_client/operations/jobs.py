"""Jobs and their events."""

from collections.abc import Callable

from hmi_client.flow import ApiRequest, Flow, Item, Sleep, get, paginate, post, send, url_path
from hmi_client.responses import Job, JobEvent, from_json

POLL_S = 1.0
JobCallback = Callable[[Job], None]
"""Called with the job after each poll."""


def list_jobs(state: str | None = None) -> Flow[None]:
    """List the tenant's jobs, newest first."""
    return (yield from paginate(Job, "jobs", {"state": state}))


def get_job(job_id: str) -> Flow[Job]:
    """Get a job."""
    return (yield from get(Job, url_path("jobs", job_id)))


def tail_job(
    job_id: str, *, after: int = 0, poll_s: float = POLL_S, on_progress: JobCallback | None = None
) -> Flow[None]:
    """Yield the events of a job after the event ``after``, and new ones until the job is finished."""
    while True:
        job = yield from get_job(job_id)  # before the events: a finished job gets no further ones
        if on_progress:
            on_progress(job)
        while events := (yield from _events(job_id, after)):
            for event in events:
                yield Item(event)
            after = events[-1].id
        if job.is_finished:
            return
        yield Sleep(poll_s)


def cancel_job(job_id: str) -> Flow[Job]:
    """Cancel a job. A running job stops soon."""
    return from_json(Job, (yield from post(url_path("jobs", job_id, "cancel"))))


def retry_job(job_id: str) -> Flow[Job]:
    """Retry a failed or canceled job."""
    return from_json(Job, (yield from post(url_path("jobs", job_id, "retry"))))


def _events(job_id: str, after: int) -> Flow[list[JobEvent]]:
    response = yield from send(ApiRequest("GET", url_path("jobs", job_id, "events"), {"after": after}))
    return [from_json(JobEvent, event) for event in response.json()]
