"""A job's process that the kernel killed because memory was full: told apart from one that merely died.

An allocation that fails raises, and the batch is halved in the process. On Linux, main memory seldom fails
that way: the kernel promises it, and kills when the promise cannot be kept.
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
from workers.training.batch_parts import begin_in_parts

log = logging.getLogger(__name__)

PROC: Final = Path("/proc")
CGROUPS: Final = Path("/sys/fs/cgroup")


def run_job_in_child(job_id: UUID) -> int:
    """Run a job in a process of its own; returns its exit code.

    Once it was killed for want of memory it begins with half of each batch; killed so again, it is over.
    """
    halved, before = job_ran_out_of_memory(job_id=job_id), kills_for_memory()
    code = run_in_child(partial(_run, job_id, halved))
    # Somebody's SIGKILL alone says nothing about memory: that job goes on elsewhere as it was.
    if code == -signal.SIGKILL and kills_for_memory() > before and not is_stopping():
        log.error("The kernel killed the process of job %s for want of memory", job_id)
        worker = job_lease_holder(job_id=job_id)
        if worker is not None and _is_gone(worker):
            job_end_out_of_memory(job_id=job_id, worker=worker, again=halved, message=OUT_OF_MEMORY)
    return code


def kills_for_memory() -> int:
    """How many processes the kernel has killed for want of memory: of this control group where it says so,
    else of the whole machine.
    """
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
        begin_in_parts(2)
    runner.run_job(job_id)


def _is_gone(worker: str) -> bool:
    """Whether it was a process of this machine (`worker_name`) that is no more."""
    host, pid, _ = worker.rsplit(":", 2)
    return host == socket.gethostname() and not (Path("/proc") / pid).exists()
