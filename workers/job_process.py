"""Runs a job in a child process, and detects when the kernel's OOM killer ended it.

A failed allocation raises, and the optimizer splits the batch. On Linux main memory seldom fails that way:
the kernel overcommits, and kills a process when memory runs out.
"""

import logging
import re
import signal
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from tenants.base.child_process import is_stopping, run_in_child
from versiontree.jobs.services.lease_recovery import (
    job_end_out_of_memory,
    job_lease_holder,
    job_ran_out_of_memory,
)
from workers import runner
from workers.failures import OUT_OF_MEMORY
from workers.training.gradient_accumulation import set_accumulation_steps

log = logging.getLogger(__name__)

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


def run_job_in_child(job_id: UUID) -> int:
    """Run a job in a child process; returns its exit code.

    After an OOM kill the job starts with batches in two parts; after another one it fails.
    """
    halved, before = job_ran_out_of_memory(job_id=job_id), oom_kill_count()
    code = run_in_child(partial(_run, job_id, halved))
    # A SIGKILL alone may have another cause; lease recovery then retries the job unchanged.
    if code == -signal.SIGKILL and oom_kill_count() > before and not is_stopping():
        log.error("The OOM killer ended the process of job %s", job_id)
        worker = job_lease_holder(job_id=job_id)
        if worker is not None and _is_gone(worker):
            job_end_out_of_memory(job_id=job_id, worker=worker, again=halved, message=OUT_OF_MEMORY)
    return code


def oom_kill_count() -> int:
    """The number of OOM kills in this control group, or on the whole machine where that is not known."""
    for counter in _counters():
        if found := re.search(r"^oom_kill (\d+)$", counter, re.MULTILINE):
            return int(found[1])
    return 0


def _counters() -> Iterator[str]:
    group = re.search(r"^0::/(.*)$", _read(PROC / "self/cgroup"), re.MULTILINE)
    if group is not None:
        yield _read(CGROUPS / group[1] / "memory.events")
    yield _read(PROC / "vmstat")


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def _run(job_id: UUID, halved: bool) -> None:
    if halved:
        set_accumulation_steps(2)
    runner.run_job(job_id)


def _is_gone(worker: str) -> bool:
    """Whether `worker` (see `worker_name`) was a process of this machine that has ended."""
    host, pid, _ = worker.rsplit(":", 2)
    return host == socket.gethostname() and not (Path("/proc") / pid).exists()
