"""Load untrusted artifacts in a sandboxed process, to check or convert them.

The process runs the code that serves artifacts. That needs torch, which the web process does not load, and
hostile files might crash it. The process has no secrets, a low priority, and limits of memory and processor
time. It reads weights from safetensors only, which runs no code of the files.
"""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.archive.layout import invalid_archive

TIMEOUT_S: Final = 900
"""The wall-clock limit. It is generous, because the processor time is limited too."""
CPU_LIMIT_S: Final = 30
"""The limit for small artifacts. Starting takes about five seconds, an adapter one or two."""
BYTES_PER_CPU_S: Final = 20 * 1024**2
"""Large artifacts get another second for each 20 MiB, ten times what reading them takes."""
MAX_REASON_LENGTH: Final = 300
FORMATS: Final = {"peft": "a PEFT adapter", "adapterhub": "an AdapterHub adapter"}
"""The formats of adapter exports."""
MAX_REFUSAL_LENGTH: Final = 1000
PASSED_ENVIRONMENT: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"}
)
"""The environment variables that the process gets, besides `LC_…`."""
SINGLE_THREAD_ENVIRONMENT: Final[Mapping[str, str]] = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
MEMORY_BASE: Final = 4 * 1024**3
"""Bytes for what does not grow with the artifacts. Torch without GPUs takes 300 MB."""
MEMORY_FACTOR: Final = 5
"""Weights in fp16 are in memory as read, widened to fp32, and as fp32 parameters: 1 + 2 + 2."""
MAX_MEMORY: Final = 32 * 1024**3
MEMORY_SHARE: Final = 3
"""The memory limit is at most `MAX_MEMORY` and a third of the machine's, on which two may run at once."""
MAX_NAMES: Final = 256
"""At most so many tensor names below the cut are listed in an error's details."""


@dataclass(frozen=True, slots=True)
class ArtifactCheck:
    """New artifacts to load: their folders, the folder of their root, and whether the root is new too.

    `plots` are nearest first; `ends` says whether the last of them is the root's own.
    """

    root: str
    root_is_new: bool
    lowers: Sequence[str]
    plots: Sequence[str]
    ends: bool
    hplm: str | None
    cascade: str | None = None

    max_cpu_s = TIMEOUT_S

    @property
    def folders(self) -> list[str]:
        """The folders to read."""
        root = [self.root] if self.root_is_new else []
        own = [folder for folder in (self.hplm, self.cascade) if folder]
        return [*root, *self.lowers, *self.plots, *own]


@dataclass(frozen=True, slots=True)
class AdapterImportRequest:
    """The folders of an adapter and its root, and a new folder `out` for the model.

    `labels`, `task` and `pairs` are used if the adapter does not define them. `drop_lower` drops changes
    below the cut.
    """

    root: str
    adapter: str
    out: str
    labels: Sequence[str] = ()
    task: str = ""
    pairs: bool = False
    drop_lower: bool = False
    max_cpu_s = CPU_LIMIT_S

    @property
    def folders(self) -> list[str]:
        """The folders to read."""
        return [self.root, self.adapter]


@dataclass(frozen=True, slots=True)
class AdapterExportRequest:
    """The folders of a model and its root, a new folder `out`, and one of FORMATS.

    `base` is the hub id of the root's checkpoint, if that is known.
    """

    root: str
    hplm: str
    out: str
    format: str
    base: str = ""
    max_cpu_s = CPU_LIMIT_S

    @property
    def folders(self) -> list[str]:
        """The folders to read."""
        return [self.root, self.hplm]


@dataclass(frozen=True, slots=True)
class AdapterExportResult:
    """How to load the exported adapter and get its outputs, or why the format does not support the model."""

    read: str
    refused: str


def artifacts_check(request: ArtifactCheck) -> dict[str, Any]:
    """Load the artifacts. Returns the ``task`` and ``pairs`` of the model, if there is one.

    Raises ``invalid_archive`` with the reason.
    """
    answer = sandbox_response(request)
    if answer is None:
        raise invalid_archive("The process crashed while loading the artifacts. The files may be damaged.")
    if "error" in answer:
        raise invalid_archive(f"The artifacts cannot be loaded: {str(answer['error'])[:MAX_REASON_LENGTH]}.")
    return answer


def adapter_import_run(request: AdapterImportRequest) -> dict[str, Any]:
    """Convert an adapter to a model. Returns the report of `inference.hplm.adapter_io.adapter_import`.

    Raises ``invalid_archive`` with the reason; `details` list the tensors below the cut.
    """
    answer = sandbox_response(request)
    if answer is None:
        raise invalid_archive("The process crashed while reading the adapter. The files may be damaged.")
    if "error" in answer:
        lower = {"lower": list(answer["lower"])[:MAX_NAMES]} if "lower" in answer else {}
        raise invalid_archive(
            f"The adapter cannot be imported: {str(answer['error'])[:MAX_REFUSAL_LENGTH]}.", **lower
        )
    return answer


def adapter_export_run(request: AdapterExportRequest) -> AdapterExportResult:
    """Write a model as an adapter of another library. Raises ``internal`` if the process fails."""
    answer = sandbox_response(request)
    if answer is None or "error" in answer:
        raise HmiError(ErrorCode.INTERNAL, f"Exporting this version as {FORMATS[request.format]} failed.")
    return AdapterExportResult(
        str(answer.get("read", "")), str(answer.get("refused", ""))[:MAX_REFUSAL_LENGTH]
    )


def sandbox_response(
    request: "ArtifactCheck | AdapterImportRequest | AdapterExportRequest",
) -> dict[str, Any] | None:
    """Run ``inference.artifact_check`` in a sandboxed process. None if it ends without a response."""
    try:
        size = _size(request)
        max_cpu_s = min(CPU_LIMIT_S + size // BYTES_PER_CPU_S, request.max_cpu_s)
        output = _run(
            json.dumps(asdict(request)).encode(),
            max_bytes=_memory(size),
            max_cpu_s=max_cpu_s,
        )
        return None if output is None else dict(json.loads(output.splitlines()[-1]))
    except subprocess.TimeoutExpired as error:
        raise invalid_archive("Loading the artifacts took too long.") from error
    except (ValueError, IndexError, OSError) as error:
        raise HmiError(ErrorCode.INTERNAL, "The artifacts could not be checked.") from error


def folder_text(folder: Path) -> str:
    """An absolute path as text."""
    return str(folder.resolve())


def _run(request: bytes, *, max_bytes: int, max_cpu_s: int) -> bytes | None:
    with subprocess.Popen(
        settings.HMI_ARTIFACT_CHECK,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=settings.BASE_DIR,
        env=_environment(),
    ) as child:
        try:
            # The limits are set before the process reads the request, and so before any untrusted file.
            _limit_resources(child.pid, max_bytes, max_cpu_s)
            output, _ = child.communicate(request, timeout=TIMEOUT_S)
        except BaseException:
            child.kill()
            raise
    if child.returncode == -signal.SIGXCPU:
        raise invalid_archive(
            f"Loading the artifacts exceeded the limit of {max_cpu_s} seconds of CPU time.",
            limit=max_cpu_s,
        )
    return output if child.returncode == 0 else None


def _environment() -> dict[str, str]:
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ENVIRONMENT or name.startswith("LC_")
    }
    return {**passed, **SINGLE_THREAD_ENVIRONMENT}


def _limit_resources(pid: int, max_bytes: int, max_cpu_s: int) -> None:
    """Set a low priority, and limits of private memory (not of mapped files) and of processor time.

    If the machine still runs out of memory, the kernel ends this process first.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0) + settings.HMI_ARTIFACT_CHECK_NICENESS
    os.setpriority(os.PRIO_PROCESS, pid, min(19, niceness))
    # At the soft limit of processor time it gets SIGXCPU, at the hard one it is killed.
    limits = {
        resource.RLIMIT_DATA: (max_bytes, max_bytes),
        resource.RLIMIT_CPU: (max_cpu_s, max_cpu_s + 1),
        resource.RLIMIT_CORE: (0, 0),
    }
    for limit, (soft, hard) in limits.items():
        _, ceiling = resource.prlimit(pid, limit)
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.prlimit(pid, limit, (soft, hard))
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _size(request: "ArtifactCheck | AdapterImportRequest | AdapterExportRequest") -> int:
    """Bytes of all files that the process reads."""
    return sum(file.stat().st_size for folder in request.folders for file in Path(folder).iterdir())


def _memory(size: int) -> int:
    """The memory limit in bytes for artifacts of this size. A hostile file may claim a larger size."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(MEMORY_BASE + MEMORY_FACTOR * size, MAX_MEMORY, machine // MEMORY_SHARE)
