"""A checkpoint with a task head is a model: it answers as in transformers, or is refused by name."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.checkpoint_heads import checkpoint_hplm
from inference.hplm.hplm import MAX_OUTPUTS, Hplm
from inference.hplm.root import Root
from tests.unit.families import FAMILIES, published
from workers.training.task_model import TaskModel

LOWER = 2
CLASSES = {0: "bad", 1: "good", 2: "mixed"}
TAGS = {0: "O", 1: "B-place", 2: "I-place"}
WITHOUT_ANSWERS = {"nomic_bert", "gte"}
"""Families for which transformers has no model that answers questions."""
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("SequenceClassification", {"id2label": CLASSES}),
    "multilabel": (
        "SequenceClassification",
        {"id2label": CLASSES, "problem_type": "multi_label_classification"},
    ),
    "regression": ("SequenceClassification", {"id2label": {0: "LABEL_0"}}),
    "tagging": ("TokenClassification", {"id2label": TAGS}),
    "question_answering": ("QuestionAnswering", {}),
}


def published_with_head(folder: Path, family: str, task: str, **changes: Any) -> Any:
    """A random checkpoint of a task model in `folder`, and the model."""
    published(folder, family, **changes)
    kind, config = KINDS[task]
    labels = {"label2id": {name: number for number, name in config["id2label"].items()}} if config else {}
    torch.manual_seed(1)
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder, **config, **labels)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith(f"{model.base_model_prefix}.") or "pooler" in name:
                parameter.normal_(std=0.3)
    model.save_pretrained(folder)
    return model.eval()


def logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        said = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    both: torch.Tensor = (
        said.logits if "logits" in said else torch.stack([said.start_logits, said.end_logits], -1)
    )
    return both


def ids_of_texts() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randint(6, 100, (3, 11))


@pytest.mark.parametrize(
    ("family", "task"),
    [
        *((family, task) for family in FAMILIES for task in ("classification", "tagging")),
        *(("bert", task) for task in ("multilabel", "regression")),
        *((family, "question_answering") for family in sorted(FAMILIES.keys() - WITHOUT_ANSWERS)),
    ],
)
def test_a_checkpoint_answers_as_in_transformers(family: str, task: str, tmp_path: Path) -> None:
    answers_as_in_transformers(tmp_path, family, task)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("modernbert", {"classifier_pooling": "mean", "classifier_bias": True, "norm_bias": True}),
        ("deberta-v2", {"pooler_hidden_act": "tanh"}),
    ],
)
def test_so_it_does_with_the_flags_of_its_family(
    family: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    answers_as_in_transformers(tmp_path, family, "classification", **changes)


def answers_as_in_transformers(folder: Path, family: str, task: str, **changes: Any) -> None:
    theirs = logits_of(published_with_head(folder, family, task, **changes), ids_of_texts())
    found = checkpoint_hplm(folder, lambda _: LOWER)
    assert found is not None
    found.save(folder / "hplm", torch.float32)
    stored = Hplm.load(folder / "hplm")
    assert stored.task == task
    expected = {"classification": CLASSES, "multilabel": CLASSES, "tagging": TAGS}
    if task in expected:
        assert stored.labels == tuple(expected[task].values())
    root = Root.from_checkpoint(open_checkpoint(folder), lower=LOWER)
    torch.testing.assert_close(outputs_of(root, stored, ids_of_texts()), theirs, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def outputs_of(root: Root, hplm: Hplm, ids: torch.Tensor) -> torch.Tensor:
    """What the model answers at the level FULL."""
    mask = torch.ones_like(ids).bool()
    states = root.checkpoint_lower()(ids, mask)
    outputs: torch.Tensor = TaskModel(hplm.pet, hplm.head).eval()(root.upper, states, mask)
    return outputs


def test_a_checkpoint_without_a_task_head_makes_no_model(tmp_path: Path) -> None:
    published(tmp_path, "bert")
    assert checkpoint_hplm(tmp_path, lambda _: LOWER) is None


def config_with(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def weights_with(name: str, value: torch.Tensor | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / "model.safetensors"
        weights = load_file(file)
        if value is None:
            del weights[name]
        else:
            weights[name] = value
        save_file(weights, file)

    return change


@pytest.mark.parametrize(
    ("task", "spoil", "message"),
    [
        ("classification", config_with(id2label={"0": "bad", "1": "good"}), "outputs 0 to 2"),
        ("classification", config_with(id2label={"0": "x", "1": "x", "2": "y"}), "3 different labels; 2"),
        ("classification", config_with(id2label=["bad", "good", "mixed"]), "outputs 0 to 2"),
        ("classification", config_with(problem_type="ranking"), "problem_type 'ranking'"),
        ("classification", config_with(problem_type="regression"), "predicts 3 numbers"),
        (
            "tagging",
            config_with(id2label={"0": "O", "1": "B-place", "2": "place"}),
            "'place' is not a valid tag",
        ),
        ("classification", weights_with("classifier.weight", None), "lacks classifier.weight"),
        ("classification", weights_with("bert.pooler.dense.weight", torch.zeros(8, 8)), "lacks pooler.dense"),
        ("classification", weights_with("classifier.bias", torch.zeros(2)), "its bias has another size"),
        ("classification", weights_with("classifier.weight", torch.full((3, 32), torch.nan)), "NaN"),
        (
            "classification",
            weights_with("classifier.weight", torch.zeros(MAX_OUTPUTS + 1, 32)),
            f"{MAX_OUTPUTS + 1:,} outputs",
        ),
    ],
)
def test_a_head_that_cannot_be_served_is_refused_by_name(
    task: str, spoil: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    published_with_head(tmp_path, "bert", task)
    spoil(tmp_path)
    with pytest.raises(HplmError, match=message) as caught:
        checkpoint_hplm(tmp_path, lambda _: LOWER)
    assert caught.value.code == "unsupported_checkpoint"
