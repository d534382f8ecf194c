"""The real `peft` and `adapters`: what they save is carried over, and they load what is left for them, with
the same outputs from the same states at the cut; for every task that a model can have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PetSpec
from inference.hplm.root import Root
from inference.text.tasks import Task
from tests.integration.versiontree.transfer.adapters.answers import answered
from tests.integration.versiontree.transfer.adapters.libraries import BEHIND, BUILDING_S, UPPER, Libraries
from tests.unit.families import published
from tests.unit.tiny import tiny_checkpoint, tiny_hplm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILDING_S)]
LORA = {**UPPER, "target_modules": ["query", "output.dense"]}
PATTERNS = {
    **UPPER, "target_modules": ["query", "value"], "use_rslora": True, "bias": "lora_only",
    "rank_pattern": {"value": 2}, "alpha_pattern": {"layer.3.attention.self.query": 32},
}  # fmt: skip
TRAINED: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("classification", "peft", {"task": "SEQ_CLS", "labels": 3, "lora": LORA}),
    ("multilabel", "peft", {"task": "SEQ_CLS", "labels": 3, "lora": LORA}),
    ("regression", "peft", {"task": "SEQ_CLS", "labels": 1, "lora": LORA}),
    ("tagging", "peft", {"task": "TOKEN_CLS", "labels": 3, "lora": PATTERNS}),
    ("question_answering", "peft", {"task": "QUESTION_ANS", "labels": 2, "lora": LORA}),
    ("classification", "adapters", {"head": "classification", "with": {"num_labels": 3}, "config": BEHIND}),
    (
        "multilabel",
        "adapters",
        {"head": "classification", "with": {"num_labels": 3, "multilabel": True}, "config": BEHIND},
    ),
    (
        "regression",
        "adapters",
        {
            "head": "classification",
            "with": {"num_labels": 1, "layers": 1},
            "config": {**BEHIND, "scaling": 2.0},
        },
    ),
    ("tagging", "adapters", {"head": "tagging", "with": {"num_labels": 3}, "config": BEHIND}),
    ("question_answering", "adapters", {"head": "qa", "with": {}, "config": BEHIND}),
)
"""(the task, the library, what it is told)"""
SAID = ("multilabel",)
"""Tasks that a folder of PEFT alone does not tell from another: whoever imports it says so."""
NAMED: Mapping[str, list[str]] = {"regression": [], "question_answering": []}
"""Names of the outputs, where they are not the three tags of this test."""


@pytest.mark.parametrize(("task", "library", "told"), TRAINED)
def test_what_they_train_answers_here_as_there(
    libraries: Libraries, task: str, library: str, told: Mapping[str, Any], tmp_path: Path
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "checkpoint")
    ids, logits = libraries.run(f"train-{library}", checkpoint, tmp_path / "theirs", **told)
    root = root_of(checkpoint, tmp_path / "root")
    wanted = {
        "adapter": tmp_path / "theirs",
        "root": tmp_path / "root",
        "out": tmp_path / "hplm",
        "labels": NAMED.get(task, ["O", "B-x", "I-x"]),
        "task": task if task in SAID else "",
        "pairs": False,
        "drop_lower": False,
    }
    adapter_import(wanted)
    hplm = Hplm.load(tmp_path / "hplm")
    assert hplm.task == task
    torch.testing.assert_close(answered(root, hplm, ids), logits, atol=2e-5, rtol=1e-4)


BIASES = PetSpec(lora=4, biases=True, norms=True)
PLACES = PetSpec(lora=4, lora_places=("query", "contract"), biases=True)
BOTH = PetSpec(adapter=8, output_adapter=8)


@pytest.mark.parametrize("task", get_args(Task))
@pytest.mark.parametrize(
    ("family", "spec", "library"),
    [
        ("bert", BIASES, "peft"),
        ("distilbert", PLACES, "peft"),
        ("bert", PetSpec(adapter=8), "adapters"),
        ("distilbert", BOTH, "adapters"),
    ],
    ids=["bert-peft", "distilbert-peft", "bert-adapters", "distilbert-adapters"],
)
def test_what_is_exported_answers_there_as_here(
    libraries: Libraries, family: str, task: Task, spec: PetSpec, library: str, tmp_path: Path
) -> None:
    published(tmp_path / "checkpoint", family)
    root = root_of(tmp_path / "checkpoint", tmp_path / "root")
    hplm = tiny_hplm(root, task, spec=spec)
    hplm.save(tmp_path / "hplm", torch.float32)
    form = {"peft": "peft", "adapters": "adapterhub"}[library]
    adapter_export(
        {"root": tmp_path / "root", "hplm": tmp_path / "hplm", "out": tmp_path / "ours", "format": form}
    )
    # No task model reads the first token's state as it is, as heads made here do: one for tokens does.
    kind = "QUESTION_ANS" if task == "question_answering" else "TOKEN_CLS"
    settings = {"task": kind, "labels": hplm.head.num_labels}
    ids, logits = libraries.run(f"load-{library}", tmp_path / "checkpoint", tmp_path / "ours", **settings)
    first = hplm.head.pooling == "cls" and logits.dim() == 3
    expected = logits[:, 0] if first else logits
    torch.testing.assert_close(answered(root, hplm, ids), expected, atol=2e-5, rtol=1e-4)


def root_of(checkpoint: Path, folder: Path) -> Root:
    root = Root.from_checkpoint(open_checkpoint(checkpoint), lower=2)
    root.save(folder)
    return root
