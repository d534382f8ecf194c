"""What the check of a checkpoint says before it is registered."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from tenants.base.errors import ErrorCode, HmiError
from tests.unit import families, tiny_decoder
from tests.unit.tiny import tiny_checkpoint, tiny_tokenizer
from versiontree.tree.checkpoint_report import checkpoint_report, supported_checkpoint
from versiontree.tree.root_kind import RootKind

Damage = Callable[[Path], object]
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("published"))


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return shutil.copytree(published, tmp_path / "copy")


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}))


def configured(**changes: Any) -> Damage:
    return lambda folder: edit(folder / "config.json", **changes)


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Damage:
    """Save the weights again after this change of them."""

    def act(folder: Path) -> None:
        found = load_file(folder / WEIGHTS)
        change(found)
        save_file(found, folder / WEIGHTS)

    return act


def problems(folder: Path, kind: RootKind = RootKind.ENCODER) -> list[str]:
    return [problem.message for problem in checkpoint_report(str(folder), kind).problems]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_the_report_of_every_family_has_the_sizes_that_the_conversion_reads(
    family: str, tmp_path: Path
) -> None:
    families.published(tmp_path, family)
    found, expected = checkpoint_report(str(tmp_path)), open_checkpoint(tmp_path)
    shape = expected.architecture
    assert found.problems == ()
    assert (found.family, found.layers, found.hidden) == (family, shape.layers, shape.hidden)
    assert (found.vocabulary, found.max_tokens) == (shape.vocab, shape.max_length)
    assert found.token_ids == Root.from_checkpoint(expected).tokenizer.size
    saved = load_file(tmp_path / WEIGHTS)
    assert found.parameters == sum(tensor.numel() for tensor in saved.values())
    assert found.dtypes == {"F32": len(saved)}


@pytest.mark.parametrize("family", tiny_decoder.FAMILIES)
def test_the_report_of_every_family_of_decoders_too(family: str, tmp_path: Path) -> None:
    tiny_decoder.tiny_decoder_folder(tmp_path, family)
    found, shape = checkpoint_report(str(tmp_path), RootKind.DECODER), open_decoder_checkpoint(tmp_path)
    assert found.problems == ()
    assert (found.layers, found.hidden) == (shape.architecture.layers, shape.architecture.hidden)
    assert found.vocabulary == shape.architecture.vocab


def test_a_checkpoint_in_several_files_has_the_same_report(folder: Path) -> None:
    whole = checkpoint_report(str(folder))
    found = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    parts = {name: f"model-0000{number % 2 + 1}-of-00002.safetensors" for number, name in enumerate(found)}
    for file in set(parts.values()):
        save_file({name: found[name] for name in found if parts[name] == file}, folder / file)
    (folder / INDEX).write_text(json.dumps({"weight_map": parts}))
    split = checkpoint_report(str(folder))
    assert split.problems == ()
    assert (split.parameters, split.dtypes, split.layers) == (whole.parameters, whole.dtypes, whole.layers)
    assert {file.name for file in split.files} == {*parts.values(), "config.json", "tokenizer.json"}
    (folder / sorted(set(parts.values()))[0]).unlink()
    assert "not there: model-00001-of-00002" in " ".join(problems(folder))


def test_a_task_head_the_modules_of_embeddings_and_code_of_its_own_are_named(folder: Path) -> None:
    head = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "no", "1": "yes"}}
    edit(folder / "config.json", **head, auto_map={"AutoModel": "modeling.Model"})
    modules = [{"idx": 0, "type": "sentence_transformers.models.Transformer"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    found = checkpoint_report(str(folder))
    assert found.problems == ()
    assert found.head == "BertForSequenceClassification, 2 labels: no, yes"
    assert found.modules == ("Transformer",)
    assert "auto_map" in found.notes[0]


def longer_tokenizer(folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.add_tokens(["one", "more"])
    tokenizer.save(str(folder / "tokenizer.json"))


def cut_off(folder: Path) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:-10])


DAMAGES: list[tuple[Damage, str]] = [
    (configured(model_type="albert"), "'albert' is not supported"),
    (configured(hidden_size=-32), "hidden_size is -32"),
    (configured(hidden_size=10**400), "hidden_size is 1000"),
    (configured(num_hidden_layers=10**6), "The weights have 4 layers, but config.json says 1000000"),
    (configured(num_hidden_layers=3), "The weights have 4 layers, but config.json says 3"),
    (configured(vocab_size=9), "but config.json says vocab_size 9"),
    (configured(rope_scaling={"type": "yarn", "factor": 4.0}), "rotary scaling 'yarn'"),
    (configured(rope_parameters={"full": {"rope_type": "dynamic"}}), "rotary scaling 'dynamic'"),
    (configured(num_experts=8), "mixture of experts"),
    (configured(quantization_config={"bits": 4}), "quantised"),
    (configured(is_decoder=True), "is_decoder"),
    (longer_tokenizer, "tokenizer.json has ids up to"),
    (cut_off, "bytes of tensors, but its header says"),
    (lambda folder: (folder / WEIGHTS).write_bytes(b"\xff" * 99), "is no safetensors file"),
    (lambda folder: (folder / WEIGHTS).write_bytes(b"\1" + bytes(7) + b"["), "header is not JSON"),
    (lambda folder: (folder / WEIGHTS).write_bytes(b""), "is no safetensors file"),
    (
        lambda folder: (folder / WEIGHTS).write_bytes(b"\x0d" + bytes(7) + b'{"a":{"x":1}}'),
        "header does not describe a",
    ),
    (
        weights(lambda found: found.update({"pooler.dense.weight": torch.zeros(3, 3, dtype=torch.int8)})),
        "number format I8",
    ),
    (lambda folder: (folder / INDEX).write_text('{"weight_map": {"x": "../other"}}'), "usable weight_map"),
    (lambda folder: (folder / "config.json").write_text("{"), "no readable config.json"),
    (lambda folder: (folder / "config.json").write_text("[" * 100_000), "no readable config.json"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGES, ids=[said for _, said in DAMAGES])
def test_what_is_not_supported_is_named(damage: Damage, said: str, folder: Path) -> None:
    damage(folder)
    assert said in " ".join(problems(folder))
    with pytest.raises(HmiError) as caught:
        supported_checkpoint(str(folder))
    assert said in caught.value.message
    assert (caught.value.code, caught.value.param) == (ErrorCode.UNSUPPORTED_CHECKPOINT, "source")


def test_all_problems_are_listed_at_once(folder: Path) -> None:
    (folder / WEIGHTS).rename(folder / "pytorch_model.bin")
    (folder / "tokenizer.json").unlink()
    edit(folder / "config.json", model_type="albert", num_attention_heads=0)
    with pytest.raises(HmiError) as caught:
        supported_checkpoint(str(folder))
    assert caught.value.code == ErrorCode.PICKLED_CHECKPOINT
    listed = (caught.value.details or {})["problems"]
    assert len(listed) == 4
    for part in ("pytorch_model.bin", "albert", "tokenizer.json", "num_attention_heads is 0"):
        assert any(part in problem for problem in listed)
        assert part in caught.value.message


def test_a_hub_id_and_a_gguf_file_are_checked_by_the_job(tmp_path: Path) -> None:
    hub = checkpoint_report("a/b")
    assert (hub.source, hub.layers, hub.problems) == ("a/b", None, ())
    assert "downloaded" in hub.notes[0]
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF and the rest")
    assert checkpoint_report(str(file), RootKind.DECODER).size == 17
    with pytest.raises(HmiError, match="no folder"):
        checkpoint_report("/nowhere/at/all")
