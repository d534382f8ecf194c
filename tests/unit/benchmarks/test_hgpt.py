"""The benchmark of looked-up lower layers of decoders, on a tiny decoder of random weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.accuracy.hgpt.__main__ import main
from benchmarks.accuracy.hgpt.fragments import Fragments, Table, complete, hit_levels
from benchmarks.accuracy.hgpt.mixer import CausalMixer
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.plot import HIT_EXACT, HIT_SHORTER, HIT_UNIGRAM
from inference.hplm.sequences import PackedSequences
from tests.unit.tiny_decoder import BOS, HIDDEN, VOCAB, tiny_decoder, tiny_decoder_folder


def sequences(count: int, length: int, seed: int = 0) -> np.ndarray:
    """Random token ids of a small alphabet, so that fragments repeat."""
    drawn = np.random.default_rng(seed).integers(0, 6, (count, length - 1))
    return np.pad(drawn, ((0, 0), (1, 0)), constant_values=BOS)


def test_a_fragments_state_is_that_of_the_fragment_alone_behind_the_first_token() -> None:
    decoder, text = tiny_decoder(), sequences(5, 16)
    fragments = Fragments(text, VOCAB)
    states = fragments.states(decoder, (1, 2))
    nodes = fragments.nodes(text, complete(text))
    for row, at in ((0, 0), (1, 1), (2, 2), (3, 3), (4, 15)):
        alone = torch.tensor([BOS, *text[row, max(1, at - 2) : at + 1]][: at + 1])
        positions = torch.arange(len(alone))
        attention = DenseAttention(PackedSequences((len(alone),)))
        wanted = decoder.run_layers(decoder.embed(alone, positions), positions, attention, layers=range(2))
        torch.testing.assert_close(states[2][nodes[row, at]], wanted[-1], rtol=1e-4, atol=1e-4)


def test_a_table_of_all_fragments_misses_those_that_only_the_text_itself_has() -> None:
    text = np.array([[BOS, 1, 2, 3, 4], [BOS, 1, 2, 3, 5]])
    table = Table(text, VOCAB, alpha=100.0)
    assert table.depths(text).tolist() == complete(text).tolist()
    others = table.depths(text, leave_one_out=True)
    assert others.tolist() == [[0, 1, 2, 3, 1], [0, 1, 2, 3, 1]]
    assert hit_levels(others)[0].tolist() == [HIT_EXACT] * 4 + [HIT_UNIGRAM]


def test_a_table_of_half_the_occurrences_keeps_the_frequent_fragments() -> None:
    text = np.array([[BOS, 1, 2, 1, 2, 1, 2, 1, 2, 3, 4]])
    assert Table(text, VOCAB, alpha=50.0).depths(np.array([[BOS, 9, 1, 2, 3]])).tolist() == [[0, 1, 1, 2, 1]]
    assert hit_levels(np.array([[0, 1, 1, 2]])).tolist()[0] == [
        HIT_EXACT,
        HIT_EXACT,
        HIT_UNIGRAM,
        HIT_SHORTER,
    ]


def mixed(mixer: CausalMixer, states: torch.Tensor, lengths: tuple[int, ...]) -> torch.Tensor:
    layout = PackedSequences(lengths)
    positions = torch.from_numpy(layout.positions)
    found: torch.Tensor = mixer(states, positions % 3, positions, DenseAttention(layout))
    return found


def test_a_mixer_reads_earlier_tokens_of_its_own_text_alone() -> None:
    torch.manual_seed(0)
    mixer = CausalMixer(HIDDEN)
    states = torch.randn(11, HIDDEN)
    torch.testing.assert_close(mixed(mixer, states, (5, 6)), states)
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    whole = mixed(mixer, states, (5, 6))
    changed = states.clone()
    changed[3] += 1
    differs = (mixed(mixer, changed, (5, 6)) - whole).abs().amax(1) > 1e-5
    assert differs.tolist() == [False] * 3 + [True] * 2 + [False] * 6
    torch.testing.assert_close(mixed(mixer, states[5:], (6,)), whole[5:])


def test_a_run_reports_each_cut_and_computes_none_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    corpus = tmp_path / "data" / "corpora" / "general.txt"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("".join(f"the river by the pub number {number}\n" for number in range(2000)))
    folder = tiny_decoder_folder(tmp_path / "decoder", max_position_embeddings=512)
    file = tmp_path / "report.json"
    command = ["--quick", "--checkpoint", str(folder), "--cuts", "1", "2", "--json", str(file)]
    assert main([*command, "--minutes", "1e-6"]) == 0
    report = json.loads(file.read_text())
    assert [(row["layers"], row["looked up"]) for row in report["rows"]] == [
        (cut, part) for cut in (1, 2) for part in ("rows", "mixer")
    ]
    assert {"perplexity_ratio_1", "decode_saved_2", "cuts_that_pay"} <= report["figures"].keys()
    capsys.readouterr()
    assert main([*command, "--minutes", "1e-6", "--committed"]) == 0
    assert json.loads(file.read_text())["rows"] == report["rows"]
