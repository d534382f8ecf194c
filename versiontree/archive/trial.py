"""Whether artifacts of strangers can be loaded, tried in a process of its own.

Tensors and tables are opened by the code that serves them. That code needs torch, which the web process does
not load, and maps files that may be made to crash it.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from tenants.errors import ErrorCode, HmiError
from versiontree.archive.layout import refused

PATIENCE_S: Final = 900
LONGEST_REASON: Final = 300
SECRET: Final = frozenset({"DATABASE_URL", "REDIS_URL", "HMI_SECRET_KEY"})
"""What strangers' files need not be near."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to try: the folder of the root that all belongs to, whether that is new too, and new artifacts.

    `plots` nearest first; `ends` says that the last of them is the root's own.
    """

    root: str
    root_is_new: bool
    lowers: Sequence[str]
    plots: Sequence[str]
    ends: bool
    hplm: str | None


def artifacts_try(trial: Trial) -> dict[str, Any]:
    """Load them all; what the hPLM says of itself (``task``, ``pairs``), nothing when there is none.

    Raises ``invalid_archive`` with what does not fit.
    """
    answer = trial_answer(trial)
    if answer is None:
        raise refused("Loading the artifacts ends the process that tries it.")
    if "error" in answer:
        raise refused(f"The artifacts cannot be loaded: {str(answer['error'])[:LONGEST_REASON]}.")
    return answer


def trial_answer(trial: Trial) -> dict[str, Any] | None:
    """What ``inference.hplm.trial`` says in a process of its own; None when that ends without a word."""
    try:
        done = subprocess.run(
            settings.HMI_ARTIFACT_TRIAL,
            input=json.dumps(asdict(trial)).encode(),
            capture_output=True,
            cwd=settings.BASE_DIR,
            env={name: value for name, value in os.environ.items() if name not in SECRET},
            timeout=PATIENCE_S,
            check=False,
        )
        return dict(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else None
    except subprocess.TimeoutExpired as error:
        raise refused("Loading the artifacts took too long.") from error
    except (ValueError, IndexError, OSError) as error:
        raise HmiError(ErrorCode.INTERNAL, "The artifacts could not be tried.") from error


def folder_text(folder: Path) -> str:
    """An absolute path as text."""
    return str(folder.resolve())
