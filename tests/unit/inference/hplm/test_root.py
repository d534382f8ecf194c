import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from inference.errors import HplmError
from inference.hplm.artifact_check import check_lower
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.local_lower import JSON_FILE as LOWER_FILE_OF_FRAGMENTS
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import LOWER_FILE, UPPER_FILE, Root
from inference.text.tokenization import ROOT_FILE, TOKENIZER_FILE


def test_a_checkpoint_without_a_language_model_head_has_none(root: Root) -> None:
    assert root.lm_head() is None


def test_a_saved_root_keeps_its_name_cut_report_and_language_model_head(
    checkpoint_folder: Path, tmp_path: Path
) -> None:
    root = Root.from_checkpoint(open_checkpoint(checkpoint_folder), lower=1, name="demo")
    root.save(tmp_path, {"unexplained": 0.1})
    again = Root.load(tmp_path)
    assert again.config.report == {"unexplained": 0.1}
    assert (again.config.name, again.config.lower, again.config.upper) == ("demo", 1, 3)
    assert again.config.missing_id == again.config.vocab == again.tokenizer.size
    assert again.lm_head() is not None


def test_a_root_saved_before_ladders_were_stored_has_tables_of_all_levels(root: Root, tmp_path: Path) -> None:
    root.save(tmp_path)
    content = json.loads((tmp_path / ROOT_FILE).read_text())
    del content["ladder"]
    (tmp_path / ROOT_FILE).write_text(json.dumps(content))
    assert Root.load(tmp_path).config == root.config
    assert root.config.ladder == ("trigram", "left_bigram", "right_bigram", "unigram")


def test_a_root_saved_before_an_architecture_had_parts_is_one_of_bert_layers(
    root: Root, lower: LocalLower, tmp_path: Path
) -> None:
    root.save(tmp_path)
    lower.save(tmp_path)
    for name in (ROOT_FILE, LOWER_FILE_OF_FRAGMENTS):
        content = json.loads((tmp_path / name).read_text())
        for part in ("position_embeddings", "pre_norm", "gated", "rotary", "windows", "relative"):
            del content["architecture"][part]
        (tmp_path / name).write_text(json.dumps(content))
    assert Root.load(tmp_path).config == root.config
    check_lower(tmp_path, root.config)


@pytest.mark.parametrize("ladder", [("trigram",), ("trigram", "bigram", "unigram")])
def test_a_ladder_ends_at_the_unigram_and_has_no_unknown_level(root: Root, ladder: tuple[str, ...]) -> None:
    with pytest.raises(HplmError, match="ladder"):
        replace(root.config, ladder=ladder)


def test_saving_the_same_root_twice_gives_the_same_bytes(root: Root, tmp_path: Path) -> None:
    for name in ("one", "other"):
        root.save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()


def test_a_loaded_root_does_not_learn(root: Root, tmp_path: Path) -> None:
    root.save(tmp_path)
    upper = Root.load(tmp_path, "cpu", torch.bfloat16).upper
    assert upper.dtype == torch.bfloat16
    assert not upper.training
    assert not any(parameter.requires_grad for parameter in upper.parameters())


@pytest.mark.parametrize("file", [ROOT_FILE, TOKENIZER_FILE, UPPER_FILE])
def test_a_root_that_lacks_a_file_does_not_load(root: Root, tmp_path: Path, file: str) -> None:
    root.save(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(HplmError, match=file) as caught:
        Root.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


def test_lower_layers_are_read_only_on_request(root: Root, tmp_path: Path) -> None:
    root.save(tmp_path)
    (tmp_path / LOWER_FILE).unlink()
    loaded = Root.load(tmp_path)
    with pytest.raises(HplmError, match=LOWER_FILE):
        loaded.checkpoint_lower()


@pytest.mark.parametrize("content", ['{"format": 2}', '{"format": 1, "name": "x"}', "{"])
def test_a_root_of_an_unknown_format_does_not_load(root: Root, tmp_path: Path, content: str) -> None:
    root.save(tmp_path)
    (tmp_path / ROOT_FILE).write_text(content)
    with pytest.raises(HplmError) as caught:
        Root.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"
