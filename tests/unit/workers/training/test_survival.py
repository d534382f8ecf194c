"""A job that is killed goes on where it stood and makes the very same bytes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.test_convert import SMALL as CONVERT
from tests.unit.workers.training.test_further_pretrain import SMALL as PRETRAIN
from tests.unit.workers.training.world import contents, corpus_file, repeating_texts

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CHECKOUT = Path(__file__).resolve().parents[4]
PATIENCE_S = 600.0

# Runs a training function with checkpoints after every step, and says which step it has come to; at the one
# where it is to be killed it waits for that.
PROGRAM = """
import json, sys, time
from pathlib import Path
from workers.training.checkpoints import CheckpointStore
from workers.training.convert import ConvertSettings, convert_root
from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain

class StepReporter:
    def start_stage(self, name, total): self.name = name
    def report(self, step, **metrics):
        print(self.name, step, flush=True)
        if f"{self.name} {step}" == sys.argv[5]: time.sleep(600)
    def raise_if_cancelled(self): pass

kind, folder = sys.argv[1], Path(sys.argv[2])
given, settings = json.loads(sys.argv[3]), json.loads(sys.argv[4])
paths = {name: Path(value) for name, value in given.items()}
checkpoints = CheckpointStore(folder / "checkpoints", 0.0)
if kind == "convert":
    convert_root(checkpoint=given["checkpoint"], corpus=paths["corpus"], out_root=folder / "out" / "root",
                 out_lower=folder / "out" / "lower", settings=ConvertSettings(**settings),
                 reporter=StepReporter(), checkpoints=checkpoints)
else:
    further_pretrain(**paths, out=folder / "out", settings=FurtherPretrainSettings(**settings),
                     reporter=StepReporter(), checkpoints=checkpoints)
"""


class Job:
    """A training function in a process of its own."""

    def __init__(
        self, kind: str, folder: Path, given: dict[str, str], settings: dict[str, Any], *, until: str = ""
    ) -> None:
        self._until = until
        arguments = [kind, str(folder), json.dumps(given), json.dumps(settings), until]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def told(self) -> list[str]:
        """Run to the end; the steps it told."""
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        return output.splitlines()

    def killed(self) -> set[str]:
        """SIGKILL at the step that it goes on until; the steps it told."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        told = set()
        for line in self.process.stdout:
            assert time.monotonic() < deadline
            told.add(line.strip())
            if self._until in told:
                break
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL
        return told


@pytest.mark.parametrize(
    ("killed_at", "kept"),
    [("closed form 3", set()), ("distil 7", {"closed form 1", "distil 1", "distil 6"})],
)
def test_a_conversion_killed_in_the_middle_gives_the_same_root(
    branch: Branch, tmp_path: Path, killed_at: str, kept: set[str]
) -> None:
    corpus = corpus_file(tmp_path / "corpus.txt")
    given = {"checkpoint": str(branch.checkpoint), "corpus": str(corpus)}
    settings = asdict(CONVERT) | {"distil_tokens": 6_000}
    _compare(tmp_path, "convert", given, settings, killed_at, kept)


@pytest.mark.parametrize(
    ("killed_at", "kept"),
    [
        ("fit language model head 4", {"fit language model head 1", "fit language model head 3"}),
        ("further pretrain 9", {"fit language model head 1", "further pretrain 1", "further pretrain 8"}),
        (
            "further pretrain with full context 9",
            {
                "further pretrain 1",
                "further pretrain with full context 1",
                "further pretrain with full context 8",
            },
        ),
    ],
)
def test_a_further_pretraining_killed_in_the_middle_gives_the_same_domain(
    branch: Branch, tmp_path: Path, killed_at: str, kept: set[str]
) -> None:
    corpus = corpus_file(tmp_path / "corpus.txt", repeating_texts(300))
    given = {"root": str(branch.root), "lower": str(branch.lower), "corpus": str(corpus)}
    settings = asdict(PRETRAIN) | {"tokens": 4_000, "head_tokens": 3_000, "distillation_weight": 1.0}
    _compare(tmp_path, "further_pretrain", given, settings, killed_at, kept)


def _compare(
    folder: Path,
    kind: str,
    given: dict[str, str],
    settings: dict[str, Any],
    killed_at: str,
    kept: set[str],
) -> None:
    """Kill a job and start it again: the steps `kept` are not taken a second time, and the result is that of
    a job that was never killed."""
    straight = Job(kind, folder / "straight", given, settings)
    assert kept <= Job(kind, folder / "killed", given, settings, until=killed_at).killed()
    assert not (folder / "killed" / "out").exists()
    assert not kept & set(Job(kind, folder / "killed", given, settings).told())
    straight.told()
    assert contents(folder / "killed" / "out") == contents(folder / "straight" / "out")
