"""The files of a generative model."""

import json
from pathlib import Path

import pytest
import torch

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.lora import LORA_FILE, DecoderLora
from inference.errors import HplmError
from inference.text.outputs import HPLM_FILE
from tests.unit.tiny_decoder import tiny_decoder

ARCHITECTURE = tiny_decoder().architecture


def hplm(task: str = "chat") -> GenerativeHplm:
    """One with a LoRA on a single projection."""
    inputs, outputs = ARCHITECTURE.projection_shape("query")
    factors = torch.randn(inputs, 4), torch.randn(4, outputs)
    return GenerativeHplm(task, DecoderLora.of({(1, "query"): factors}, ARCHITECTURE))


def test_a_generative_model_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = hplm()
    saved.save(tmp_path, ARCHITECTURE)
    loaded = GenerativeHplm.load(tmp_path, ARCHITECTURE)
    assert (loaded.task, loaded.lora.lowest_layer) == ("chat", 1)
    assert torch.equal(loaded.lora.row, saved.lora.row)


@pytest.mark.parametrize("name", [HPLM_FILE, LORA_FILE])
def test_a_missing_file_is_refused(name: str, tmp_path: Path) -> None:
    hplm().save(tmp_path, ARCHITECTURE)
    (tmp_path / name).unlink()
    with pytest.raises(HplmError, match=name) as caught:
        GenerativeHplm.load(tmp_path, ARCHITECTURE)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize("task", ["classification", None])
def test_a_model_that_does_not_write_is_refused(task: object, tmp_path: Path) -> None:
    hplm().save(tmp_path, ARCHITECTURE)
    content = json.loads((tmp_path / HPLM_FILE).read_text())
    (tmp_path / HPLM_FILE).write_text(json.dumps(content | {"task": task}))
    with pytest.raises(HplmError, match="unknown generative task"):
        GenerativeHplm.load(tmp_path, ARCHITECTURE)
