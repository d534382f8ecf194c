"""Whether artifacts of strangers can be loaded, tried in a process of its own.

Tensors and tables are opened by the code that serves them. That code needs torch, which the web process does
not load, and maps files that may be made to crash it. The process knows no secrets, gives way to all others,
and has no more memory and processor time than such artifacts take. Where the machine grants namespaces it
reaches no network, no other process, and of the installation's folders only those of the artifacts.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.archive.layout import refused

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 900
"""Seconds by the clock. What is allowed is processor time: on a busy machine it comes late."""
PROCESSOR_S: Final = 30
"""To start takes some five seconds, and to read and write an adapter one or two."""
BYTES_A_SECOND: Final = 20 * 1024**2
"""Artifacts of a version may be gigabytes: each 20 MiB of them, read in a tenth of that time, earns another
second."""
MAX_REASON_LENGTH: Final = 300
FORMATS: Final = {"peft": "an adapter of PEFT", "adapterhub": "an adapter of AdapterHub"}
"""What a model can be exported as, besides an archive."""
MAX_REFUSAL_LENGTH: Final = 1000
PASSED_ON: Final = frozenset(
    {"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"}
)
"""What Python and its libraries are found by, and `LC_…`: strangers' files need not be near anything else."""
ONE_THREAD: Final[Mapping[str, str]] = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)
NICER: Final = 10
MEMORY_BASE: Final = 4 * 1024**3
"""Bytes for what does not grow with the artifacts: torch without GPUs takes 300 MB, so this leaves room."""
MEMORY_TIMES: Final = 5
"""Weights in fp16 are held as they are read, widened to fp32, and as parameters in fp32: 1 + 2 + 2."""
MAX_MEMORY: Final = 32 * 1024**3
MEMORY_SHARE: Final = 3
"""However large the artifacts are: at most so much, and a third of the machine, where two may run at once."""
MAX_NAMES: Final = 256
"""Of what stands below the cut, told in details."""


@dataclass(frozen=True, slots=True)
class ArtifactCheck:
    """What to try: the folder of the root that all belongs to, whether that is new too, and new artifacts.

    `plots` nearest first; `ends` says that the last of them is the root's own.
    """

    root: str
    root_is_new: bool
    lowers: Sequence[str]
    plots: Sequence[str]
    ends: bool
    hplm: str | None

    most_s = TIMEOUT_S

    @property
    def folders(self) -> list[str]:
        """Those that are read whole."""
        root = [self.root] if self.root_is_new else []
        return [*root, *self.lowers, *self.plots, *([self.hplm] if self.hplm else [])]


@dataclass(frozen=True, slots=True)
class AdapterImportRequest:
    """An adapter's folder, that of the root it was trained on, and a new one for the model it becomes;
    labels, task and pairs where the adapter does not say them; whether what it changes below the cut is left
    out."""

    root: str
    adapter: str
    out: str
    labels: Sequence[str] = ()
    task: str = ""
    pairs: bool = False
    drop_lower: bool = False
    most_s = PROCESSOR_S

    @property
    def folders(self) -> list[str]:
        """Those that are read whole."""
        return [self.root, self.adapter]


@dataclass(frozen=True, slots=True)
class AdapterExportRequest:
    """A model's folder, that of its root, a new one to write to, and one of FORMATS."""

    root: str
    hplm: str
    out: str
    format: str
    most_s = PROCESSOR_S

    @property
    def folders(self) -> list[str]:
        """Those that are read whole."""
        return [self.root, self.hplm]


@dataclass(frozen=True, slots=True)
class AdapterExportResult:
    """How the outputs of an adapter are read that was written, or why its format cannot hold the model."""

    read: str
    refused: str


def artifacts_check(request: ArtifactCheck) -> dict[str, Any]:
    """Load them all; what the model says of itself (``task``, ``pairs``), nothing when there is none.

    Raises ``invalid_archive`` with what does not fit.
    """
    answer = sandbox_response(request)
    if answer is None:
        raise refused("Loading the artifacts ends the process that tries it.")
    if "error" in answer:
        raise refused(f"The artifacts cannot be loaded: {str(answer['error'])[:MAX_REASON_LENGTH]}.")
    return answer


def adapter_import_run(request: AdapterImportRequest) -> dict[str, Any]:
    """Make a model of an adapter; what `inference.hplm.adapter_io.adapter_import` says of it.

    Raises ``invalid_archive`` with what cannot be carried over; `details` names what stands below the cut.
    """
    answer = sandbox_response(request)
    if answer is None:
        raise refused("Reading the adapter ends the process that tries it.")
    if "error" in answer:
        lower = {"lower": list(answer["lower"])[:MAX_NAMES]} if "lower" in answer else {}
        raise refused(
            f"The adapter cannot be imported: {str(answer['error'])[:MAX_REFUSAL_LENGTH]}.", **lower
        )
    return answer


def adapter_export_run(request: AdapterExportRequest) -> AdapterExportResult:
    """Write a model as an adapter for others. Raises ``internal`` when that fails, whatever the format."""
    answer = sandbox_response(request)
    if answer is None or "error" in answer:
        raise HmiError(ErrorCode.INTERNAL, f"This version could not be written as {FORMATS[request.format]}.")
    return AdapterExportResult(
        str(answer.get("read", "")), str(answer.get("refused", ""))[:MAX_REFUSAL_LENGTH]
    )


def sandbox_response(
    request: "ArtifactCheck | AdapterImportRequest | AdapterExportRequest",
) -> dict[str, Any] | None:
    """What ``inference.hplm.artifact_check`` says in its own process; None when that ends without a word."""
    try:
        size = _size(request)
        most_s = min(PROCESSOR_S + size // BYTES_A_SECOND, request.most_s)
        said = _ask(
            json.dumps(asdict(request)).encode(),
            kept=[request.root, *request.folders],
            written=None if isinstance(request, ArtifactCheck) else folder_text(Path(request.out).parent),
            most_bytes=_memory(size),
            most_s=most_s,
        )
        return None if said is None else dict(json.loads(said.splitlines()[-1]))
    except subprocess.TimeoutExpired as error:
        raise refused("Loading the artifacts took too long.") from error
    except (ValueError, IndexError, OSError) as error:
        raise HmiError(ErrorCode.INTERNAL, "The artifacts could not be tried.") from error


def folder_text(folder: Path) -> str:
    """An absolute path as text."""
    return str(folder.resolve())


def _ask(
    wanted: bytes, *, kept: Sequence[str], written: str | None, most_bytes: int, most_s: int
) -> bytes | None:
    with subprocess.Popen(
        [*_sandbox(kept, written), *settings.HMI_ARTIFACT_CHECK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=settings.BASE_DIR,
        env=_environment(),
    ) as child:
        try:
            # It starts nothing and reads no file of strangers before it is told which.
            _restrain(child.pid, most_bytes, most_s)
            said, _ = child.communicate(b"\n" + wanted, timeout=TIMEOUT_S)
        except BaseException:
            child.kill()
            raise
    if child.returncode == -signal.SIGXCPU:
        raise refused(
            f"Loading the artifacts takes more than the {most_s} seconds of processor time that are allowed.",
            limit=most_s,
        )
    return said if child.returncode == 0 else None


def _sandbox(kept: Sequence[str], written: str | None) -> list[str]:
    """The beginning of a command that hides all but these folders from the rest; nothing where the machine
    does not grant that."""
    if not _sandboxed():
        return []
    return [*_sandbox_command(kept), *([f"--write={written}"] if written else []), "--"]


def _sandbox_command(kept: Sequence[str]) -> list[str]:
    hidden = [f"--hide={folder}" for folder in settings.HMI_HIDDEN_FOLDERS]
    program = (str(settings.BASE_DIR), sys.prefix, sys.base_prefix)
    shown = [f"--keep={folder}" for folder in dict.fromkeys((*kept, *program))]
    return [*settings.HMI_SANDBOX, *hidden, *shown]


@cache
def _sandboxed() -> bool:
    """Whether this machine grants it, which the log says once where it does not."""
    store = Path(settings.HMI_ARTIFACT_ROOT)
    found = subprocess.run(
        [*_sandbox_command([str(store)] if store.is_dir() else []), "--check"],
        cwd=settings.BASE_DIR,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if found.returncode != 0:
        log.warning(
            "This machine grants no namespaces to this user, so the process that tries imported weights can "
            "reach the sockets and files of this installation: %s",
            found.stderr.decode(errors="replace").strip().rpartition("\n")[2][-MAX_REASON_LENGTH:],
        )
    return found.returncode == 0


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")}
    return {**kept, **ONE_THREAD}


def _restrain(pid: int, most_bytes: int, most_s: int) -> None:
    """Low priority, and a bound on the memory of its own (files that it only maps do not count) and on its
    processor time. Where the machine runs out of memory all the same, this process is ended first."""
    os.setpriority(os.PRIO_PROCESS, pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICER))
    # At the lower limit of processor time it gets a signal that says why, at the upper one it is killed.
    limits = {
        resource.RLIMIT_DATA: (most_bytes, most_bytes),
        resource.RLIMIT_CPU: (most_s, most_s + 1),
        resource.RLIMIT_CORE: (0, 0),
    }
    for limit, wanted in limits.items():
        _, ceiling = resource.prlimit(pid, limit)
        lower, upper = (most if ceiling == resource.RLIM_INFINITY else min(most, ceiling) for most in wanted)
        resource.prlimit(pid, limit, (lower, upper))
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _size(request: "ArtifactCheck | AdapterImportRequest | AdapterExportRequest") -> int:
    """Bytes of all that the process reads."""
    return sum(file.stat().st_size for folder in request.folders for file in Path(folder).iterdir())


def _memory(size: int) -> int:
    """How many bytes the process may take for artifacts of this size: a file can say that it is larger than
    it is."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(MEMORY_BASE + MEMORY_TIMES * size, MAX_MEMORY, machine // MEMORY_SHARE)
