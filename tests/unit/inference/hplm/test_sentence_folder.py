"""Folders of sentence-transformers: what is read of them, and what is refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from inference.text.sentence_config import SentenceConfig
from tests.unit.sentence_files import LIMIT, MODULES, PROMPTS, add_sentence_files, modules, write_json
from tests.unit.tiny import HIDDEN, tiny_checkpoint

OLD, NEW = MODULES, "sentence_transformers.base.modules"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("published"), add_files=add_sentence_files)


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return shutil.copytree(published, tmp_path / "copy")


def read(folder: Path) -> Root:
    return Root.from_checkpoint(open_checkpoint(folder))


def change(folder: Path, file: str, **changes: Any) -> None:
    write_json(folder / file, {**json.loads((folder / file).read_text()), **changes})


def test_a_root_keeps_how_embeddings_are_made(folder: Path, tmp_path: Path) -> None:
    root = read(folder)
    assert root.config.sentence == SentenceConfig(
        pooling=("mean",),
        modules=("tanh", "normalize"),
        prompts=PROMPTS,
        default_prompt="query",
        max_tokens=LIMIT,
    )
    root.save(tmp_path / "root")
    loaded = Root.load(tmp_path / "root")
    states = [torch.randn(7, HIDDEN), torch.randn(1, HIDDEN)]
    assert loaded.config == root.config
    assert torch.equal(loaded.sentence.embed(states), root.sentence.embed(states))


def test_a_root_without_modules_gives_the_mean_at_length_one(folder: Path, tmp_path: Path) -> None:
    (folder / "modules.json").unlink()
    root = read(folder)
    root.save(tmp_path / "root")
    assert root.config.sentence is None
    assert "sentence" not in json.loads((tmp_path / "root" / "root.json").read_text())
    assert SentenceConfig.of_root(tmp_path / "root") == SentenceConfig()
    states = torch.randn(7, HIDDEN)
    expected = torch.nn.functional.normalize(states.mean(0), dim=0)
    torch.testing.assert_close(Root.load(tmp_path / "root").sentence.embed([states])[0], expected)


def test_a_cross_encoder_is_read_as_a_checkpoint_alone(folder: Path) -> None:
    change(folder, "config_sentence_transformers.json", model_type="CrossEncoder")
    assert read(folder).config.sentence is None


def set_modules(*types: str) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / "modules.json", modules(*types))


def set_path(number: int, path: str) -> Callable[[Path], None]:
    def set_one(folder: Path) -> None:
        listed = json.loads((folder / "modules.json").read_text())
        listed[number]["path"] = path
        write_json(folder / "modules.json", listed)

    return set_one


def setting(file: str, **changes: Any) -> Callable[[Path], None]:
    return lambda folder: change(folder, file, **changes)


def dense(**weights: torch.Tensor) -> Callable[[Path], None]:
    named = {f"linear.{name}": value for name, value in weights.items()}
    return lambda folder: save_file(named, folder / "2_Dense" / "model.safetensors")


def pickle_dense(folder: Path) -> None:
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")


POOLING, DENSE_CONFIG = "1_Pooling/config.json", "2_Dense/config.json"
TRANSFORMER, ABOUT = "sentence_bert_config.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (set_modules(f"{OLD}.Transformer", f"{OLD}.LSTM", f"{OLD}.Pooling"), f"{OLD}.LSTM"),
        (set_modules(f"{OLD}.Transformer", f"{OLD}.Pooling", f"{NEW}.LayerNorm"), "LayerNorm"),
        (set_modules(f"{OLD}.Transformer", "custom_code.Pooling"), "custom_code.Pooling"),
        (set_modules("sentence_transformers_evil.Transformer", f"{OLD}.Pooling"), "evil"),
        (set_modules(f"{OLD}.Transformer"), "2 to 10 modules"),
        (lambda folder: write_json(folder / "modules.json", {"0": "Transformer"}), "not a list"),
        (lambda folder: (folder / "modules.json").write_text("["), "modules.json is not JSON"),
        (set_path(1, "../1_Pooling"), "'../1_Pooling'"),
        (set_path(2, "/etc"), "'/etc'"),
        (set_path(0, "0_Transformer"), "'0_Transformer'"),
        (setting(POOLING, word_embedding_dimension=7), "1_Pooling: it pools states of 7 numbers"),
        (setting(POOLING, pooling_mode="attention"), "'attention'"),
        (setting(POOLING, pooling_mode=[]), "length >= 1"),
        (setting(POOLING, include_prompt=False), "1_Pooling: include_prompt False"),
        (lambda folder: (folder / POOLING).unlink(), "1_Pooling: config.json is missing"),
        (setting(DENSE_CONFIG, activation_function="os.system"), "2_Dense: the activation is 'os.system'"),
        (setting(DENSE_CONFIG, activation_function="torch.nn.Softmax"), "'torch.nn.Softmax'"),
        (setting(DENSE_CONFIG, use_residual=True), "2_Dense: use_residual True"),
        (setting(DENSE_CONFIG, module_input_name="token_embeddings"), "module_input_name token_embeddings"),
        (setting(DENSE_CONFIG, in_features=6), "(5, 6)"),
        (dense(weight=torch.ones(5, 9), bias=torch.ones(5)), "(5, 9)"),
        (dense(weight=torch.full((5, HIDDEN), torch.nan), bias=torch.ones(5)), "2_Dense: model.safetensors"),
        (dense(weight=torch.ones(5, HIDDEN)), "2_Dense: it has other tensors"),
        (lambda folder: shutil.rmtree(folder / "2_Dense"), "2_Dense: config.json is missing"),
        (setting(TRANSFORMER, max_seq_length=2), "sentence_bert_config.json: texts of 2 tokens"),
        (setting(TRANSFORMER, transformer_task="fill-mask"), "transformer_task fill-mask"),
        (setting(ABOUT, prompts={"query": 7}), "Expected `str`, got `int`"),
        (setting(ABOUT, prompts={"query": "a" * 5000}), "length <= 4000"),
        (setting(ABOUT, default_prompt_name="other"), "'other' is not one of the prompts: query, passage"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    folder: Path, damage: Callable[[Path], object], words: str
) -> None:
    damage(folder)
    with pytest.raises(HplmError) as caught:
        read(folder)
    assert caught.value.code == "unsupported_checkpoint"
    assert words in caught.value.message


def test_dense_layers_are_not_unpickled(folder: Path) -> None:
    pickle_dense(folder)
    with pytest.raises(HplmError) as caught:
        read(folder)
    assert caught.value.code == "pickled_checkpoint"
    assert caught.value.message.startswith("2_Dense: ")


def test_lower_case_is_refused_where_the_tokenizer_keeps_upper_case(folder: Path) -> None:
    change(folder, TRANSFORMER, do_lower_case=True)
    assert read(folder).config.sentence
    change(folder, "tokenizer.json", normalizer=None)
    with pytest.raises(HplmError, match="do_lower_case"):
        read(folder)


@pytest.mark.parametrize(
    "section", [[], {"pooling": "mean"}, {"modules": ["softmax"]}, {"max_tokens": 1}, {"modules": ["tanh"]}]
)
def test_a_damaged_section_of_a_root_is_refused(folder: Path, tmp_path: Path, section: object) -> None:
    (folder / "modules.json").unlink()
    read(folder).save(tmp_path / "root")
    change(tmp_path / "root", "root.json", sentence=section)
    with pytest.raises(HplmError) as caught:
        Root.load(tmp_path / "root")
    assert caught.value.code == "corrupt_artifact"
