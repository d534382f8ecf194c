"""The real `adapters` library: what it saves is imported, and it loads what is exported, with the same
outputs from the same states at the cut; for every task that a model can have. For `peft` see tests/field."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.serving.peers.environment import PeerUnavailable, peers_python
from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.text.tasks import EMBEDDING, Task
from tests.integration.versiontree.transfer.adapters.answers import answered
from tests.skips import skip_unless_ci
from tests.unit.families import published
from tests.unit.tiny import tiny_checkpoint, tiny_hplm

BUILDING_S = 1500
"""How long a test may take that has the environment built first: minutes, more where much else runs."""
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(BUILDING_S)]
PROGRAM = Path(__file__).with_name("adapters_program.py")
DONE, ENDS = "DONE\n", ("DONE\n", "FAILED\n")


class Library:
    """A process that has the library. It is started once: to load what it needs takes seconds."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log

    def run(self, command: str, checkpoint: Path, folder: Path, **settings: Any) -> tuple[Tensor, Tensor]:
        """The ids that the library's model was asked, and its logits."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([command, str(checkpoint), str(folder), settings]) + "\n")
        self._process.stdin.flush()
        said = next((line for line in iter(self._process.stdout.readline, "") if line in ENDS), "")
        assert said == DONE, self._log.read_text()[-3000:]
        found = load_file(f"{folder}.answers.safetensors")
        return found["ids"], found["logits"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """The library, until the end of the module. Nothing it is asked for is on the hub."""
    try:
        python = peers_python()
    except PeerUnavailable as error:
        skip_unless_ci(str(error))
    log = tmp_path_factory.mktemp("logs") / "adapters"
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        ) as process,
    ):
        yield Library(process, log)
        process.kill()


BEHIND: Mapping[str, Any] = {
    "mh_adapter": True, "output_adapter": True, "reduction_factor": 4, "non_linearity": "relu",
    "original_ln_before": True, "residual_before_ln": False, "original_ln_after": False, "leave_out": [0, 1],
}  # fmt: skip
"""Bottleneck adapters as a model can have them: in the upper two of four layers."""
TRAINED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("classification", {"head": "classification", "with": {"num_labels": 3}, "config": BEHIND}),
    (
        "multilabel",
        {"head": "classification", "with": {"num_labels": 3, "multilabel": True}, "config": BEHIND},
    ),
    (
        "regression",
        {
            "head": "classification",
            "with": {"num_labels": 1, "layers": 1},
            "config": {**BEHIND, "scaling": 2.0},
        },
    ),
    ("tagging", {"head": "tagging", "with": {"num_labels": 3}, "config": BEHIND}),
    ("question_answering", {"head": "qa", "with": {}, "config": BEHIND}),
)
"""(the task, what the library is told)"""
NAMED: Mapping[str, list[str]] = {"regression": [], "question_answering": []}
"""Names of the outputs, where they are not the three tags of this test."""


@pytest.mark.parametrize(("task", "told"), TRAINED)
def test_adapter_trained_by_the_library_answers_here_as_there(
    library: Library, task: str, told: Mapping[str, Any], tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "checkpoint")
    ids, logits = library.run("train", checkpoint, tmp_path / "theirs", **told)
    root = root_of(checkpoint, tmp_path / "root")
    wanted = {
        "adapter": tmp_path / "theirs",
        "root": tmp_path / "root",
        "out": tmp_path / "hplm",
        "labels": NAMED.get(task, ["O", "B-x", "I-x"]),
        "task": task if task == "multilabel" else "",
        "pairs": False,
        "drop_lower": False,
    }
    adapter_import(wanted)
    hplm = Hplm.load(tmp_path / "hplm")
    assert hplm.task == task
    torch.testing.assert_close(answered(root, hplm, ids), logits, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("task", [task for task in get_args(Task) if task != EMBEDDING])
@pytest.mark.parametrize(
    ("family", "spec"),
    [("bert", PetSpec(adapter=8)), ("distilbert", PetSpec(adapter=8, output_adapter=8))],
    ids=["bert", "distilbert"],
)
def test_exported_adapter_answers_in_the_library_as_here(
    library: Library, family: str, task: Task, spec: PetSpec, tmp_path: Path
) -> None:
    published(tmp_path / "checkpoint", family)
    root = root_of(tmp_path / "checkpoint", tmp_path / "root")
    hplm = tiny_hplm(root, task, spec=spec)
    hplm.save(tmp_path / "hplm", torch.float32)
    adapter_export(
        {
            "root": tmp_path / "root",
            "hplm": tmp_path / "hplm",
            "out": tmp_path / "ours",
            "format": "adapterhub",
        }
    )
    ids, logits = library.run("load", tmp_path / "checkpoint", tmp_path / "ours")
    expected = logits[:, 0] if hplm.head.pooling == "cls" and logits.dim() == 3 else logits
    torch.testing.assert_close(answered(root, hplm, ids), expected, atol=2e-5, rtol=1e-4)


def root_of(checkpoint: Path, folder: Path) -> Root:
    root = Root.from_checkpoint(open_checkpoint(checkpoint), lower=2)
    root.save(folder)
    return root
