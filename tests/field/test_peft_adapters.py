"""Adapters as the installed `peft` trains, saves and loads them: what is imported answers as there, or is
refused by name; what is exported answers there as here."""

import copy
import importlib
import json
import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.decoder.lora import DecoderLora
from inference.decoder.peft_lora import read_peft_lora, write_peft_lora
from inference.errors import HplmError
from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.adapter_io.peft_config import FIELDS, MAX_PATTERNS, PeftConfig
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.text.tasks import Task
from tests.integration.versiontree.transfer.adapters.answers import answered
from tests.unit.families import published
from tests.unit.tiny import tiny_checkpoint, tiny_hplm
from tests.unit.tiny_decoder import FAMILIES, tiny_decoder, tiny_decoder_folder

peft: Any = importlib.import_module("peft")  # mypy would check all of it
pytestmark = pytest.mark.filterwarnings("ignore")
MODELS: Mapping[str, Any] = {
    "SEQ_CLS": transformers.AutoModelForSequenceClassification,
    "TOKEN_CLS": transformers.AutoModelForTokenClassification,
    "QUESTION_ANS": transformers.AutoModelForQuestionAnswering,
    "CAUSAL_LM": transformers.AutoModelForCausalLM,
}
TAGS = ["O", "B-x", "I-x"]
UPPER: Mapping[str, Any] = {"layers_to_transform": [2, 3], "r": 4, "lora_alpha": 8}
LORA: Mapping[str, Any] = {**UPPER, "target_modules": ["query", "value"]}
of_family = cache(tiny_decoder)
NOT_LOWER = r".*layer\.[01]\..*"


@dataclass(frozen=True)
class Place:
    """A checkpoint, and the root made of it with two of its four layers below the cut."""

    checkpoint: Path
    root: Root


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Place]:
    """By family."""
    return {
        family: _place(tmp_path_factory.mktemp(family), family)
        for family in ("bert", "roberta", "distilbert", "electra", "mpnet")
    }


def _place(folder: Path, family: str) -> Place:
    checkpoint = folder / "checkpoint"
    if family == "bert":  # with a pooler
        tiny_checkpoint(checkpoint)
    else:
        published(checkpoint, family)
    root = Root.from_checkpoint(open_checkpoint(checkpoint), lower=2)
    root.save(folder / "root")
    return Place(checkpoint, root)


def task_model(checkpoint: Path, task: str) -> Any:
    """A model of the checkpoint with a random head."""
    return copy.deepcopy(_read(checkpoint, task))


@cache
def _read(checkpoint: Path, task: str) -> Any:
    torch.manual_seed(1)
    labels = {"num_labels": 3} if task in ("SEQ_CLS", "TOKEN_CLS") else {}
    return MODELS[task].from_pretrained(checkpoint, **labels).eval()


def trained(checkpoint: Path, folder: Path, task: str, **config: Any) -> None:
    """Save an adapter whose trained parameters are random."""
    config = {"init_lora_weights": False, **config}
    torch.manual_seed(2)
    model = peft.get_peft_model(task_model(checkpoint, task), peft.LoraConfig(task_type=task, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)


def peft_logits(checkpoint: Path, folder: Path, task: str, ids: Tensor) -> Tensor:
    """What `peft` computes with the folder that it loads."""
    return logits_of(peft.PeftModel.from_pretrained(task_model(checkpoint, task), folder).eval(), ids)


def logits_of(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        said = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    answer: Tensor = (
        said.logits if "logits" in said else torch.stack([said.start_logits, said.end_logits], -1)
    )
    return answer


def ids_of_texts() -> Tensor:
    torch.manual_seed(3)
    return torch.randint(6, 100, (3, 11))


def imported(place: Place, folder: Path, task: str, **options: Any) -> Hplm:
    out = folder.with_name(f"{folder.name}-hplm")
    labels = [] if task == "QUESTION_ANS" else TAGS
    more = {"labels": labels, "task": "", "pairs": False, "drop_lower": False, **options}
    adapter_import({"adapter": folder, "root": place.checkpoint.with_name("root"), "out": out, **more})
    return Hplm.load(out)


def answers_as_in_peft(place: Place, folder: Path, task: str, **options: Any) -> None:
    ids = ids_of_texts()
    ours = answered(place.root, imported(place, folder, task, **options), ids)
    theirs = peft_logits(place.checkpoint, folder, task, ids)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    plain = logits_of(task_model(place.checkpoint, task), ids)
    assert not torch.allclose(plain, theirs, atol=0.01), "the adapter shows"


@pytest.fixture(scope="module")
def saved(places: Mapping[str, Place], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound adapter of an encoder."""
    folder = tmp_path_factory.mktemp("saved") / "adapter"
    trained(places["bert"].checkpoint, folder, "SEQ_CLS", **LORA)
    return folder


@pytest.fixture(scope="module")
def decoders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Checkpoints by family."""
    return {family: tiny_decoder_folder(tmp_path_factory.mktemp(family), family) for family in FAMILIES}


@pytest.fixture(scope="module")
def saved_of_decoder(decoders: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound adapter of a decoder."""
    folder = tmp_path_factory.mktemp("saved") / "adapter"
    trained(decoders["llama"], folder, "CAUSAL_LM", target_modules=["q_proj", "v_proj"])
    return folder


def changed(saved: Path, folder: Path, **config: Any) -> Path:
    """A copy of a saved adapter in `folder`, with other values of its configuration's fields."""
    shutil.copytree(saved, folder)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def case(family: str = "bert", task: str = "SEQ_CLS", **config: Any) -> tuple[str, str, Mapping[str, Any]]:
    """An adapter of this family for this task, with these fields of its configuration."""
    return family, task, config


ALL_LINEAR: Mapping[str, Any] = {"target_modules": "all-linear", "exclude_modules": NOT_LOWER}
IMPORTED: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "tags": case(task="TOKEN_CLS", **LORA),
    "questions": case(task="QUESTION_ANS", **LORA),
    "patterns with groups, ranges and alternatives": case(
        **LORA,
        use_rslora=True,
        rank_pattern={r"layer\.(2|4)\..*\.(query|key)": 3, "layer.[3-9].+value": 5},
        alpha_pattern={r"bert\..*?\.3\.(?:attention\.)?.*": 40, "query|value": 3},
    ),
    "patterns of which the first match counts": case(
        **LORA, alpha_pattern={"z.query": 3, "self.query": 50, "query": 2}
    ),
    "a regular expression that cannot be parsed": case(
        target_modules=r".*layer\.(?![01]\.)\d+\..*(query|value)"
    ),
    "one layer, by pattern": case(
        task="TOKEN_CLS", **{**LORA, "layers_to_transform": 3, "layers_pattern": "layer"}
    ),
    "excluded modules": case(**LORA, exclude_modules=["layer.3.attention.self.value"]),
    "all linear layers, the pooler too": case(**ALL_LINEAR, alpha_pattern={"bert.pooler.dense": 30}),
    "the pooler alone": case(target_modules=["pooler.dense"], r=3, use_rslora=True),
    "the pooler and its trained bias": case(
        target_modules=r".*(layer\.[23]\..*query|pooler\.dense)", bias="lora_only"
    ),
    "all linear layers for tags": case(
        task="TOKEN_CLS", target_modules="all-linear", exclude_modules=rf"{NOT_LOWER}|classifier"
    ),
    "the pooler trained whole": case(**ALL_LINEAR, modules_to_save=["pooler"]),
    "normalizations and biases": case(
        **LORA,
        bias="lora_only",
        modules_to_save=["layer.2.output.LayerNorm", "layer.3.attention.output.LayerNorm"],
    ),
    "RoBERTa": case(
        "roberta", **ALL_LINEAR, alpha_pattern={"^roberta.encoder.layer.3.attention.self.query": 64}
    ),
    "ELECTRA": case(
        "electra",
        target_modules="all-linear",
        exclude_modules=rf"{NOT_LOWER}|electra\.embeddings_project",
    ),
    "MPNet": case("mpnet", **ALL_LINEAR),
    "DistilBERT": case(
        "distilbert",
        target_modules="all-linear",
        exclude_modules=rf"{NOT_LOWER}|pre_classifier",
        rank_pattern={"^distilbert.transformer.layer.2.ffn.lin1": 5},
    ),
}


@pytest.mark.parametrize("name", IMPORTED)
def test_an_adapter_answers_here_as_in_peft(name: str, places: Mapping[str, Place], tmp_path: Path) -> None:
    family, task, config = IMPORTED[name]
    trained(places[family].checkpoint, tmp_path / "theirs", task, **config)
    answers_as_in_peft(places[family], tmp_path / "theirs", task)


MODULES = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
           "intermediate.dense", "output.dense")  # fmt: skip


def random_config(draw: random.Random) -> dict[str, Any]:
    """Targets in the upper layers, and patterns as people write them: of full names, ends and expressions."""
    modules = draw.sample(MODULES, draw.randint(1, 4))
    config: dict[str, Any] = {"r": draw.randint(1, 6), "lora_alpha": draw.randint(1, 20)}
    config["use_rslora"] = draw.random() < 0.5
    config["bias"] = draw.choice(["none", "lora_only"])
    layers = draw.choice([[2], [3], [2, 3]])
    if draw.random() < 0.5:
        ends = "|".join(module.replace(".", r"\.") for module in modules)
        config["target_modules"] = rf"bert\.encoder\.layer\.[{''.join(map(str, layers))}]\.({ends})"
    else:
        config |= {"target_modules": modules, "layers_to_transform": layers}
    for name, highest in (("rank_pattern", 9), ("alpha_pattern", 90)):
        patterns = {random_pattern(draw): draw.randint(1, highest) for _ in range(draw.randint(0, 4))}
        config[name] = dict(sorted(patterns.items()))  # In this order PEFT saves them.
    return config


def random_pattern(draw: random.Random) -> str:
    layer, module = draw.randint(0, 3), draw.choice(MODULES)
    full = f"bert.encoder.layer.{layer}.{module}"
    escaped = full.replace(".", r"\.")
    return draw.choice(
        [full, f"^{full}", escaped, f"^{escaped}$", module, f"layer.{layer}.{module}", rf".*\.{layer}\..*",
         rf"^bert\..*\.{module.rpartition('.')[2]}", f"^encoder.layer.{layer}.{module}", "(query|key)"]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_an_adapter_of_a_random_configuration_answers_here_as_in_peft(
    seed: int, places: Mapping[str, Place], tmp_path: Path
) -> None:
    config = random_config(random.Random(seed))
    trained(places["bert"].checkpoint, tmp_path / "theirs", "SEQ_CLS", **config)
    answers_as_in_peft(places["bert"], tmp_path / "theirs", "SEQ_CLS")


LOWER = "changes lower layers"
REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "the biases of all layers": ({**LORA, "bias": "all"}, LOWER),
    "embeddings trained whole": ({**LORA, "modules_to_save": ["word_embeddings"]}, LOWER),
    "a linear layer trained whole": (
        {**LORA, "modules_to_save": ["layer.3.output.dense"]},
        "was fully trained",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_adapter_that_cannot_answer_as_in_peft_is_refused_by_name(
    case: str, places: Mapping[str, Place], tmp_path: Path
) -> None:
    config, words = REFUSED[case]
    trained(places["bert"].checkpoint, tmp_path / "theirs", "SEQ_CLS", **config)
    with pytest.raises(HplmError) as caught:
        imported(places["bert"], tmp_path / "theirs", "SEQ_CLS")
    assert caught.value.code == "invalid_archive"
    assert words in caught.value.message


@pytest.mark.parametrize("targets", ["all-linear", ["word_embeddings", "query"]])
def test_changes_of_lower_layers_and_embeddings_can_be_dropped(
    targets: Any, places: Mapping[str, Place], tmp_path: Path
) -> None:
    trained(places["bert"].checkpoint, tmp_path / "theirs", "SEQ_CLS", target_modules=targets)
    with pytest.raises(HplmError, match="lower layers"):
        imported(places["bert"], tmp_path / "theirs", "SEQ_CLS")
    hplm = imported(places["bert"], tmp_path / "theirs", "SEQ_CLS", drop_lower=True)
    assert hplm.pet.spec.lora == 8


CHANGED: Mapping[str, list[Any]] = {
    "alora_invocation_tokens": [[3, 4]],
    "arrow_config": [{"top_k": 2}],
    "bias": ["some"],
    "exclude_modules": [["value"], r".*v_proj"],
    "kasa_config": [{}],
    "layers_to_transform": [[2]],
    "megatron_config": [{"a": 1}],
    "monteclora_config": [{}],
    "target_modules": [["query"], r".*\.q_proj"],
    "target_parameters": [["experts.down"]],
    "use_bdlora": [{}],
    "use_qalora": [True],
    "velora_config": [{"scale": 1.0}],
    "a_field_of_later_versions": [{"x": 1}],
}
"""Values with which `peft` would compute something else, or nothing, from the same tensors: of an encoder,
and of a decoder."""


@pytest.mark.parametrize("field", CHANGED)
def test_a_field_that_is_not_implemented_is_refused_by_name(
    field: str, places: Mapping[str, Place], saved: Path, saved_of_decoder: Path, tmp_path: Path
) -> None:
    encoder = changed(saved, tmp_path / "encoder", **{field: CHANGED[field][0]})
    with pytest.raises(HplmError, match=field):
        imported(places["bert"], encoder, "SEQ_CLS")
    decoder = changed(saved_of_decoder, tmp_path / "decoder", **{field: CHANGED[field][-1]})
    with pytest.raises(HplmError, match=field):
        read_peft_lora(decoder, of_family("llama").architecture)


def test_fields_that_change_nothing_are_read(
    places: Mapping[str, Place], saved: Path, tmp_path: Path
) -> None:
    nothing: dict[str, Any] = {
        "a_field_of_later_versions": None,
        "another": False,
        "one_more": [],
        "fan_in_fan_out": True,
    }
    same = {"revision": "main", "lora_dropout": 0.5, "inference_mode": False, "r": 4}
    folder = changed(saved, tmp_path / "theirs", **nothing, **same)
    answers_as_in_peft(places["bert"], folder, "SEQ_CLS")


NAMES = (
    "bert.encoder.layer.0.attention.self.query",
    "bert.encoder.layer.11.attention.self.query",
    "bert.encoder.layer.1.output.dense",
    "bert.encoder.layer.1.attention.output.dense",
    "bert.pooler.dense",
    "layers.1.self_attn.q_proj",
    "model.layers.1.self_attn.q_proj",
    "model.layers.10.mlp.experts.1.down_proj",
    "transformer.h.1.attn.c_attn",
    "query",
    "subquery",
)
CHOICES: tuple[dict[str, Any], ...] = (
    {"target_modules": ["query", "dense", "q_proj"]},
    {"target_modules": ["output.dense", "bert.encoder.layer.0.attention.self.query"]},
    {"target_modules": ["er.1.output.dense", "pooler"]},
    {"target_modules": "query"},
    {"target_modules": r".*\.layers?\.(0|1)\..*(query|dense|q_proj)"},
    {"target_modules": ["query", "dense", "q_proj", "c_attn"], "layers_to_transform": [1]},
    {"target_modules": ["query", "q_proj", "down_proj"], "layers_to_transform": 10},
    {"target_modules": ["query", "q_proj"], "layers_to_transform": [], "layers_pattern": []},
    {"target_modules": ["q_proj", "c_attn", "query"], "layers_to_transform": [1, 11], "layers_pattern": "h"},
    {
        "target_modules": ["q_proj", "down_proj", "query"],
        "layers_to_transform": [1],
        "layers_pattern": ["experts", "layers?"],
    },
    {"target_modules": ["query", "q_proj"], "layers_to_transform": [1], "layers_pattern": "bert|layers"},
    {
        "target_modules": ["query", "dense"],
        "exclude_modules": ["pooler.dense", "layer.0.attention.self.query"],
    },
    {"target_modules": ["query", "dense"], "exclude_modules": r"bert\..*dense"},
    {"target_modules": ["query", "dense"], "exclude_modules": "dense"},
)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_modules_are_chosen_as_in_peft(choice: dict[str, Any]) -> None:
    of_peft = importlib.import_module("peft.tuners.tuners_utils").check_target_module_exists
    theirs = [bool(of_peft(peft.LoraConfig(**choice), name)) for name in NAMES]
    assert [not PeftConfig(choice).omitted_by(name) for name in NAMES] == theirs


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        ({"(query": 4}, "'(.*\\\\.)?((query)$' cannot be used: missing )"),
        ({"(?R)": 4}, "cannot be used: regex timed out"),
        ({f"layer.{number}": 4 for number in range(MAX_PATTERNS + 1)}, "the maximum is 512"),
        (["query"], "must be an object"),
    ],
)
@pytest.mark.parametrize("field", ["rank_pattern", "alpha_pattern"])
def test_patterns_that_cannot_be_matched_are_refused_by_name(
    field: str,
    patterns: Any,
    words: str,
    places: Mapping[str, Place],
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inference.hplm.adapter_io.peft_config.MATCH_TIMEOUT_S", 0.01)
    with pytest.raises(HplmError) as caught:
        imported(places["bert"], changed(saved, tmp_path / "theirs", **{field: patterns}), "SEQ_CLS")
    assert caught.value.message.startswith(field)
    assert words in caught.value.message


def test_every_field_of_the_installed_peft_is_known() -> None:
    assert {field.name for field in fields(peft.LoraConfig)} <= set(FIELDS)


def test_a_bias_of_the_pooler_alone_is_read(places: Mapping[str, Place], saved: Path, tmp_path: Path) -> None:
    folder = changed(saved, tmp_path / "theirs")
    weights = load_file(folder / "adapter_model.safetensors")
    weights["base_model.model.bert.pooler.dense.bias"] = torch.linspace(-1, 1, 32)
    save_file(weights, folder / "adapter_model.safetensors")
    answers_as_in_peft(places["bert"], folder, "SEQ_CLS")


def test_a_module_under_two_names_is_refused(
    places: Mapping[str, Place], saved: Path, tmp_path: Path
) -> None:
    folder = changed(saved, tmp_path / "theirs")
    weights = load_file(folder / "adapter_model.safetensors")
    twice = {name.replace("model.bert.", "model."): value.clone() for name, value in weights.items()}
    save_file(weights | twice, folder / "adapter_model.safetensors")
    with pytest.raises(HplmError, match="changed twice"):
        imported(places["bert"], folder, "SEQ_CLS")


@pytest.mark.parametrize(
    ("family", "spec", "task"),
    [
        ("bert", PetSpec(lora=4, biases=True, norms=True), "tagging"),
        ("distilbert", PetSpec(lora=3, lora_places=("query", "contract")), "classification"),
        ("bert", PetSpec(lora=4, biases=True), "multilabel"),
        ("distilbert", PetSpec(lora=4, biases=True), "question_answering"),
    ],
)
def test_an_exported_adapter_answers_in_peft_as_here(
    family: str, spec: PetSpec, task: Task, places: Mapping[str, Place], tmp_path: Path
) -> None:
    place, ids = places[family], ids_of_texts()
    hplm = tiny_hplm(place.root, task, labels=1 if task == "tagging" else 3, spec=spec)
    hplm.save(tmp_path / "hplm", torch.float32)
    told = {"hplm": tmp_path / "hplm", "out": tmp_path / "out", "format": "peft"}
    adapter_export({"root": place.checkpoint.with_name("root"), **told})
    # No task model reads the first token's state as it is, as heads made here do: one for tokens does.
    kind = "QUESTION_ANS" if task == "question_answering" else "TOKEN_CLS"
    theirs = peft_logits(place.checkpoint, tmp_path / "out", kind, ids)
    expected = theirs[:, 0] if hplm.head.pooling == "cls" else theirs
    torch.testing.assert_close(answered(place.root, hplm, ids), expected, atol=1e-4, rtol=1e-4)


DECODER_IDS = torch.tensor([3, 7, 11, 250, 9, 4, 77])


class Deltas:
    """The LoRA of all tokens, straight from its definition."""

    def __init__(self, lora: DecoderLora) -> None:
        self._tensors = lora.tensors

    def __call__(self, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
        if (layer, projection) not in self._tensors:
            return outputs
        a, b = self._tensors[layer, projection]
        return outputs + inputs @ a @ b


def our_logits(decoder: Decoder, lora: DecoderLora) -> Tensor:
    layout = PackedSequences((len(DECODER_IDS),))
    positions = torch.arange(len(DECODER_IDS))
    with torch.no_grad():
        return decoder.forward(DECODER_IDS, positions, DenseAttention(layout), Deltas(lora))


ATTENTION = "model.layers.{}.self_attn.q_proj"
DECODERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "a list": ("llama", {"target_modules": ["q_proj", "down_proj"], "use_rslora": True}),
    "all linear layers": (
        "llama",
        {"target_modules": "all-linear", "alpha_pattern": {ATTENTION.format(1): 50}},
    ),
    "patterns": (
        "qwen3",
        {
            "target_modules": ["q_proj", "v_proj"],
            "alpha_pattern": {
                "^" + ATTENTION.format(0).replace(".", r"\."): 60,
                r"layers\.(1|2)\..*v_proj": 2,
            },
            "rank_pattern": {f"^{ATTENTION.format(2)}": 3},
        },
    ),
    "a regular expression": (
        "qwen2",
        {"target_modules": r"model\.layers\.[12]\.(self_attn\.k|mlp\.up)_proj"},
    ),
    "fused layers": (
        "gpt2",
        {"target_modules": "all-linear", "rank_pattern": {"^transformer.h.1.attn.c_attn": 3}},
    ),
    "some layers": (
        "gpt2",
        {"target_modules": ["c_attn"], "layers_to_transform": [0, 2], "layers_pattern": ["h"]},
    ),
    "fused gates": (
        "phi3",
        {"target_modules": "all-linear", "rank_pattern": {"^model.layers.1.mlp.gate_up_proj": 3}},
    ),
    "outputs that are normed": ("gemma3_text", {"target_modules": ["o_proj", "down_proj", "v_proj"]}),
    "outputs with a multiplier": ("granite", {"target_modules": ["o_proj", "down_proj", "q_proj"]}),
    "fully connected layers": (
        "opt",
        {"target_modules": ["fc1", "out_proj"], "exclude_modules": r".*\.0\.fc1", "lora_alpha": 40},
    ),
}


@pytest.mark.parametrize("case", DECODERS)
def test_a_lora_of_a_decoder_answers_here_as_in_peft_and_there_again(
    case: str, decoders: Mapping[str, Path], tmp_path: Path
) -> None:
    family, config = DECODERS[case]
    checkpoint = decoders[family]
    trained(checkpoint, tmp_path / "theirs", "CAUSAL_LM", **config)
    theirs = peft_logits(checkpoint, tmp_path / "theirs", "CAUSAL_LM", DECODER_IDS[None])[0]
    decoder = of_family(family)
    lora = read_peft_lora(tmp_path / "theirs", decoder.architecture).lora
    ours = our_logits(decoder, lora)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    write_peft_lora(lora, decoder.architecture, str(checkpoint), tmp_path / "ours")
    again = peft_logits(checkpoint, tmp_path / "ours", "CAUSAL_LM", DECODER_IDS[None])[0]
    torch.testing.assert_close(again, ours, atol=1e-4, rtol=1e-4)
