"""Training models, and waiting until a version is ready."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from hmi_client.errors import JobFailed
from hmi_client.operations.jobs import POLL_S, JobMethods
from hmi_client.operations.models import ModelMethods
from hmi_client.responses import FINISHED_STATES, Job, Version
from hmi_client.server import url_path


class TrainingMethods(JobMethods, ModelMethods):
    """Training models, and waiting until a version is ready."""

    def create_model(
        self,
        name: str,
        *,
        dataset: int,
        parent: int | None = None,
        settings: Mapping[str, Any] | None = None,
        license: str = "",  # noqa: A002 - the API's name
        auto_promote: bool = True,
        quick: bool = True,
    ) -> Version:
        """Start training a new model. The parent is a version of a root or a domain, by default the
        recommended one. With `quick`, unless the model answers questions or writes text, version 1 is a quick
        one, which answers within seconds, and this returns the trained version 2."""
        body = {
            "name": name,
            **({} if parent is None else {"parent": parent}),
            "dataset": dataset,
            "settings": dict(settings or {}),
            "license": license,
            "auto_promote": auto_promote,
            "quick": quick,
        }
        return self._post(Version, "models", body)

    def update_model(
        self, name: str, *, dataset: int, settings: Mapping[str, Any] | None = None, auto_promote: bool = True
    ) -> Version:
        """Start training a new version of a model. It inherits the settings that are not given."""
        body = {"dataset": dataset, "settings": dict(settings or {}), "auto_promote": auto_promote}
        return self._post(Version, url_path("models", name, "versions"), body)

    def watch_version(
        self, version_id: int, *, quick: int | None = None, poll_s: float = POLL_S
    ) -> Iterator[Job]:
        """Yield each job of a version whenever it changes, until all are finished. Meanwhile also that of its
        quick version, if its id is given."""
        seen: dict[str, Job] = {}
        while True:
            summaries = self.get_version(version_id).jobs
            beside = () if quick is None else self.get_version(quick).jobs
            for summary in (*beside, *summaries):
                before = seen.get(summary.id)
                if before is not None and before.is_finished:
                    continue
                job = self.get_job(summary.id)
                if job != before:
                    seen[summary.id] = job
                    yield job
            if all(summary.state in FINISHED_STATES for summary in summaries):
                return
            time.sleep(poll_s)

    def wait_for_version(self, version_id: int, *, poll_s: float = POLL_S) -> Version:
        """Wait until a version is ready. JobFailed if one of its jobs fails or is canceled."""
        while True:
            version = self.get_version(version_id)
            for summary in version.jobs:
                if summary.state in ("failed", "cancelled"):
                    raise JobFailed.of(self.get_job(summary.id))
            if all(summary.state in FINISHED_STATES for summary in version.jobs):
                return version
            time.sleep(poll_s)
