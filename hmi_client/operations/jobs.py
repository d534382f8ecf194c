"""Jobs and their events."""

import time
from collections.abc import Callable, Iterator

from hmi_client.connection import Connection
from hmi_client.responses import Job, JobEvent, from_json
from hmi_client.server import json_of, url_path

POLL_S = 1.0
JobCallback = Callable[[Job], None]
"""Called with the job after each poll."""


class JobMethods(Connection):
    """Jobs and their events."""

    def list_jobs(self, state: str | None = None) -> Iterator[Job]:
        """List the tenant's jobs, newest first."""
        return self._pages(Job, "jobs", {"state": state})

    def get_job(self, job_id: str) -> Job:
        """Get a job."""
        return self._get(Job, url_path("jobs", job_id))

    def tail_job(
        self, job_id: str, *, after: int = 0, poll_s: float = POLL_S, on_progress: JobCallback | None = None
    ) -> Iterator[JobEvent]:
        """Yield the events of a job after the event ``after``, and new ones until the job is finished."""
        while True:
            job = self.get_job(job_id)  # before the events: a finished job gets no further ones
            if on_progress:
                on_progress(job)
            while events := (self._events(job_id, after)):
                yield from events
                after = events[-1].id
            if job.is_finished:
                return
            time.sleep(poll_s)

    def cancel_job(self, job_id: str) -> Job:
        """Cancel a job. A running job stops soon."""
        return self._post(Job, url_path("jobs", job_id, "cancel"))

    def retry_job(self, job_id: str) -> Job:
        """Retry a failed or canceled job."""
        return self._post(Job, url_path("jobs", job_id, "retry"))

    def _events(self, job_id: str, after: int) -> list[JobEvent]:
        response = self._request("GET", url_path("jobs", job_id, "events"), params={"after": after})
        return [from_json(JobEvent, event) for event in json_of(response)]
