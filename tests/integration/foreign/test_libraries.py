"""The real `peft` and `adapters`, in an environment of their own: what they save is imported, and they load
what is exported, with the same outputs from the same states at the cut."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.peers.environment import peers_python
from benchmarks.peers.errors import PeerUnavailable
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.foreign.carrying import carry_over
from inference.hplm.foreign.leaving import leave
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PetSpec
from inference.hplm.reference import outputs_from
from inference.hplm.root import Root
from tests.lacking import lacking
from tests.unit.families import published
from tests.unit.tiny import tiny_checkpoint, tiny_hplm

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("program.py")
UPPER = {"r": 4, "lora_alpha": 8, "layers_to_transform": [2, 3]}
BEHIND: dict[str, Any] = {
    "mh_adapter": True, "output_adapter": True, "reduction_factor": 4, "non_linearity": "relu",
    "original_ln_before": True, "residual_before_ln": False, "original_ln_after": False, "leave_out": [0, 1],
}  # fmt: skip


class Library:
    """A program that has one of the two. It is started once: to load what it needs takes seconds."""

    def __init__(self, python: Path, log: Path) -> None:
        self._log = log
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
        )

    def run(self, doing: str, checkpoint: Path, folder: Path, **settings: Any) -> tuple[Tensor, Tensor]:
        """The ids that the library's model was asked, and its logits."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([doing, str(checkpoint), str(folder), settings]) + "\n")
        self._process.stdin.flush()
        assert "DONE\n" in iter(self._process.stdout.readline, ""), self._log.read_text()[-3000:]
        found = load_file(f"{folder}.answers.safetensors")
        return found["ids"], found["logits"]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Library]]:
    """Both, by their names."""
    try:
        python = peers_python()
    except PeerUnavailable as error:
        lacking(str(error))
    logs = tmp_path_factory.mktemp("logs")
    found = {name: Library(python, logs / name) for name in ("peft", "adapters")}
    yield found
    for library in found.values():
        library.end()


def run(
    libraries: dict[str, Library], doing: str, checkpoint: Path, folder: Path, **settings: Any
) -> tuple[Tensor, Tensor]:
    """By the library that `doing` names at its end."""
    return libraries[doing.rpartition("-")[2]].run(doing, checkpoint, folder, **settings)


def answered(root: Root, hplm: Hplm, ids: Tensor) -> Tensor:
    """What the hPLM gives from the checkpoint's own lower layers."""
    with torch.no_grad():
        states = root.checkpoint_lower()(ids, torch.ones_like(ids).bool())
    return torch.stack([torch.from_numpy(outputs_from(root, hplm, row)) for row in states])


def root_of(checkpoint: Path, folder: Path) -> Root:
    root = Root.from_checkpoint(open_checkpoint(checkpoint), lower=2)
    root.save(folder)
    return root


@pytest.mark.parametrize(
    ("doing", "settings"),
    [
        (
            "train-peft",
            {"task": "SEQ_CLS", "labels": 3, "lora": {**UPPER, "target_modules": ["query", "output.dense"]}},
        ),
        (
            "train-peft",
            {"task": "TOKEN_CLS", "labels": 3, "lora": {
                **UPPER, "target_modules": ["query", "value"], "use_rslora": True, "bias": "lora_only",
                "rank_pattern": {"value": 2}, "alpha_pattern": {"layer.3.attention.self.query": 32},
            }},
        ),
        ("train-adapters", {"head": "classification", "with": {"num_labels": 3}, "config": BEHIND}),
        (
            "train-adapters",
            {
                "head": "classification",
                "with": {"num_labels": 3, "layers": 1},
                "config": {**BEHIND, "scaling": 2.0},
            },
        ),
    ],
)  # fmt: skip
def test_what_they_train_answers_here_as_there(
    libraries: dict[str, Library], doing: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "checkpoint")
    ids, logits = run(libraries, doing, checkpoint, tmp_path / "theirs", **settings)
    root = root_of(checkpoint, tmp_path / "root")
    folders = {"adapter": tmp_path / "theirs", "root": tmp_path / "root", "out": tmp_path / "hplm"}
    carry_over({**folders, "labels": ["O", "B-x", "I-x"], "task": "", "pairs": False, "drop_lower": False})
    torch.testing.assert_close(
        answered(root, Hplm.load(tmp_path / "hplm"), ids), logits, atol=2e-5, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("family", "task", "spec", "doing"),
    [
        ("bert", "classification", PetSpec(lora=4, biases=True, norms=True), "load-peft"),
        (
            "distilbert",
            "tagging",
            PetSpec(lora=4, lora_places=("query", "contract"), biases=True),
            "load-peft",
        ),
        ("bert", "classification", PetSpec(adapter=8), "load-adapters"),
        ("distilbert", "tagging", PetSpec(adapter=8, output_adapter=8), "load-adapters"),
    ],
)
def test_what_is_exported_answers_there_as_here(
    libraries: dict[str, Library], family: str, task: Any, spec: PetSpec, doing: str, tmp_path: Path
) -> None:
    published(tmp_path / "checkpoint", family)
    root = root_of(tmp_path / "checkpoint", tmp_path / "root")
    hplm = tiny_hplm(root, task, spec=spec)
    hplm.save(tmp_path / "hplm", torch.float32)
    form = "peft" if doing == "load-peft" else "adapterhub"
    leave({"root": tmp_path / "root", "hplm": tmp_path / "hplm", "out": tmp_path / "ours", "format": form})
    settings = {"task": "TOKEN_CLS", "labels": hplm.head.labels}
    ids, logits = run(libraries, doing, tmp_path / "checkpoint", tmp_path / "ours", **settings)
    # No task model reads the first token's state as it is: one for tokens does.
    first = hplm.head.pooling == "cls" and logits.dim() == 3
    expected = logits[:, 0] if first else logits
    torch.testing.assert_close(answered(root, hplm, ids), expected, atol=2e-5, rtol=1e-4)
