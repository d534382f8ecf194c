"""Fragments of a decoder: what they see, what a conversion makes of them, and what tables hold."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.accuracy.hgpt.__main__ import main
from benchmarks.accuracy.hgpt.conversion import Distillation, distil, fit_closed_form
from benchmarks.accuracy.hgpt.fragments import MISSING, fragment_states
from benchmarks.accuracy.hgpt.generation import complete_from_fragments
from benchmarks.accuracy.hgpt.lower_layers import LocalLowerLayers, full_states
from benchmarks.accuracy.hgpt.metrics import perplexity
from benchmarks.accuracy.hgpt.table import FragmentTable, shares
from benchmarks.accuracy.hgpt.texts import Texts
from inference.decoder.decoder import Decoder
from inference.generation.offline import complete
from inference.generation.requests import SamplingParams
from tests.unit.tiny_decoder import BOS, VOCAB, tiny_decoder, tiny_decoder_folder
from tests.unit.workers.training.world import NullReporter, json_lines, repeating_texts
from workers.training.checkpoints import seeded_generator
from workers.training.generative.lora_parameters import LoraParameters, LoraSpec

LAYERS = 2
assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-4)
"""Equal but for rounding, which depends on what is computed together."""


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return tiny_decoder()


def texts(count: int = 3, tokens: int = 12, seed: int = 0) -> Texts:
    draw = np.random.default_rng(seed)
    return Texts(tuple(draw.integers(0, 40, tokens) for _ in range(count)))


def unconverted(decoder: Decoder, n: int = 3) -> LocalLowerLayers:
    return LocalLowerLayers.unconverted(decoder, LAYERS, n, BOS)


def changed(text: Texts, place: int) -> Texts:
    ids = text.ids[0].copy()
    ids[place] = 200
    return Texts((ids,))


@pytest.mark.parametrize("n", [2, 5])
def test_a_state_sees_its_fragment_and_nothing_else(decoder: Decoder, n: int) -> None:
    local, text, place = unconverted(decoder, n), texts(1), 6
    before, after = local.states(text), local.states(changed(text, place))
    is_same = [torch.equal(one, other) for one, other in zip(before, after, strict=True)]
    sees = range(place, place + n)
    assert is_same == [at not in sees for at in range(12)]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_fragments_as_long_as_the_text_give_the_full_model(family: str) -> None:
    decoder, several = tiny_decoder(family), texts()
    local = LocalLowerLayers.unconverted(decoder, LAYERS, 12, BOS)
    assert_close(local.states(several), full_states(decoder, several, LAYERS))


@pytest.mark.parametrize("length", [1, 3])
def test_the_closed_form_lowers_the_error_on_what_it_was_fitted_on(decoder: Decoder, length: int) -> None:
    fit = texts(20)
    lengths = np.full(240, length)
    wanted = full_states(decoder, fit, LAYERS)
    plain = unconverted(decoder)
    fitted = fit_closed_form(plain, decoder, fit, (1, 2, 3))

    def error(local: LocalLowerLayers) -> float:
        return float((local.states(fit, lengths) - wanted).square().sum())

    assert error(fitted) < 0.8 * error(plain)


def test_distillation_brings_the_model_nearer_to_the_root(decoder: Decoder) -> None:
    fit = texts(8)
    plain = unconverted(decoder)
    learned = distil(plain, fit, Distillation(steps=30, texts=4, learning_rate=3e-3), NullReporter())
    wanted = full_states(decoder, fit, LAYERS)

    def error(local: LocalLowerLayers) -> float:
        return float((local.states(fit) - wanted).square().sum())

    assert error(learned) < 0.8 * error(plain)
    assert all(torch.equal(decoder.weights[name], plain.decoder.weights[name]) for name in decoder.weights)
    upper = [name for name in decoder.weights if name not in learned.layer_weights()]
    assert all(torch.equal(decoder.weights[name], learned.decoder.weights[name]) for name in upper)


CORPUS = (np.array([1, 2, 3, 1, 2, 3, 1, 2, 4, 5]),)


def test_a_table_gives_the_longest_fragment_that_it_holds() -> None:
    table = FragmentTable.of(CORPUS, 3, VOCAB, coverage=1.0)
    held = Texts((np.array([1, 2, 3, 9, 1, 2, 5, 4, 5]),))
    assert table.lengths(held).tolist() == [1, 2, 3, 1, 1, 2, 1, 1, 2]
    assert shares(table, held) == pytest.approx({1: 4 / 7, 2: 2 / 7, 3: 1 / 7})


def test_a_table_keeps_the_most_frequent_fragments_first() -> None:
    table = FragmentTable.of(CORPUS, 2, VOCAB, coverage=0.5)
    # (1, 2) three times and (2, 3) twice are five of nine pairs.
    assert table.lengths(Texts(CORPUS)).tolist() == [1, 2, 2, 1, 2, 2, 1, 2, 1, 1]
    assert len(table) == VOCAB + 2


def test_what_a_table_lacks_has_the_state_of_a_shorter_fragment(decoder: Decoder) -> None:
    table = FragmentTable.of(CORPUS, 3, VOCAB, coverage=1.0)
    held = Texts((np.array([7, 1, 2, 3, 9, 4, 5]),))
    found = unconverted(decoder).states(held, table.lengths(held))
    keys = np.array([[1, 2, 3], [MISSING, 4, 5], [MISSING, BOS, 9]])
    assert_close(found[[3, 6, 4]], fragment_states(decoder, keys, LAYERS))


def test_perplexity_with_whole_fragments_is_that_of_the_root(decoder: Decoder) -> None:
    held = texts(4)
    whole = LocalLowerLayers.unconverted(decoder, LAYERS, 12, BOS)
    own = perplexity(decoder, held, 0, lambda batch: decoder.embed(batch.token_ids, batch.positions))
    assert perplexity(decoder, held, LAYERS, whole.states) == pytest.approx(own)
    assert own["tokens"] == 4 * 11


@pytest.mark.parametrize("has_lora", [False, True])
def test_completions_with_whole_fragments_are_those_of_the_root(decoder: Decoder, has_lora: bool) -> None:
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8]]
    spec = LoraSpec(rank=2, alpha=2.0, layers=range(LAYERS, decoder.architecture.layers))
    parameters = LoraParameters.initial(decoder.architecture, spec, seeded_generator(0))
    for factor in parameters.b.values():
        torch.nn.init.normal_(factor, generator=seeded_generator(1))
    lora = parameters.trained(decoder.architecture) if has_lora else None
    sampling = SamplingParams(max_tokens=6, temperature=0.0)
    expected = complete(decoder, lora, prompts, sampling, context=20, after_step=lambda _: None)
    whole = LocalLowerLayers.unconverted(decoder, LAYERS, 20, BOS)
    assert complete_from_fragments(decoder, whole, lora, prompts, sampling) == expected


@pytest.mark.thorough
def test_the_command_measures_each_cell_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    write_data(tmp_path / "data")
    root = tiny_decoder_folder(tmp_path / "root", num_hidden_layers=16, max_position_embeddings=512)
    told = tmp_path / "hgpt.json"
    command = ["--quick", "--checkpoint", str(root), "--json", str(told)]
    assert main(command) == 0
    document = json.loads(told.read_text())
    assert document["figures"].keys() == {"ppl_root", "ppl_table_vs_full", "rouge_l_drop"}
    shapes = [(row["lower layers"], row["n"]) for row in document["rows"] if "n" in row]
    assert shapes == [(2, 3), (4, 2), (4, 3), (4, 5), (8, 3), (15, 3)]
    capsys.readouterr()
    assert main(command) == 0
    assert "what=" not in capsys.readouterr().out
    assert json.loads(told.read_text())["figures"] == document["figures"]


def write_data(folder: Path) -> None:
    (folder / "corpora").mkdir(parents=True)
    (folder / "e2e").mkdir()
    lines = repeating_texts(400)
    (folder / "corpora" / "biomed.txt").write_text("\n".join(lines))
    json_lines(folder / "e2e" / "train.txt", [{"prompt": "a[b]", "completion": "b is a"}] * 8)
    row = {"prompt": "a[c]", "completions": ["c is a", "a c"]}
    for split in ("dev", "test"):
        json_lines(folder / "e2e" / f"{split}.txt", [row] * 2)
