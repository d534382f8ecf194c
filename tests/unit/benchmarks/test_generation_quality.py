"""The benchmark of generative models against PEFT: both sides learn the same tokens, and are scored alike."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from benchmarks.accuracy.e2e_dataset import Sizes, write_rows
from benchmarks.accuracy.generation_quality.__main__ import choose, figures_of, main
from benchmarks.accuracy.generation_quality.peft import row_of
from benchmarks.accuracy.generation_quality.root import SharedRoot
from benchmarks.accuracy.generation_quality.scores import Answers, bleu_difference_error
from benchmarks.accuracy.generation_quality.trainings import HMI, PEFT, Candidate, TrainedLora
from benchmarks.serving.peers.environment import HTTP_PACKAGES, PeerUnavailable, peers_python
from benchmarks.serving.peers.lora_program import padded
from tests.skips import skip_unless_ci
from tests.unit.tiny_decoder import tiny_decoder_folder
from tests.unit.workers.training.world import NullReporter, json_lines
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.rows import GENERATION, read_rows
from workers.training.generative.training import GenerativeSplit, split_loss

BUILDING_S = 1500
"""Of the environment with PEFT, where it is not there yet."""
NAMES = ("Aromi", "Cocum", "Fitzbillies", "Giraffe")
DEFAULT, DEEP = Candidate(HMI, 1e-3, 2), Candidate(HMI, 1e-3, 0)
PEERS, SLOWER = Candidate(PEFT, 2e-4), Candidate(PEFT, 1e-4)


def sentences(name: str) -> list[str]:
    return [f"{name} is a pub.", f"The pub {name}.", f"A pub is {name} by the river."]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dataset, with few restaurants."""
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    folder = tmp_path / "data" / "e2e"
    folder.mkdir(parents=True)
    learned = [(f"name[{name}]", text) for name in NAMES for text in sentences(name)]
    json_lines(folder / "train.txt", ({"prompt": prompt, "completion": text} for prompt, text in learned))
    for split in ("dev", "test"):
        asked = ({"prompt": f"{split}[{name}]", "completions": sentences(name)} for name in NAMES)
        json_lines(folder / f"{split}.txt", asked)
    return folder


@pytest.fixture
def root(data: Path, tmp_path: Path) -> SharedRoot:
    return SharedRoot.load(tiny_decoder_folder(tmp_path / "checkpoint"))


def answers(*texts: str) -> Answers:
    return Answers(texts, [sentences(name) for name in NAMES])


PERFECT = answers(*(sentences(name)[0] for name in NAMES))
WRONG = answers(*(f"{name} has a river and a pub." for name in NAMES))


def test_every_reference_of_the_other_splits_is_a_row_and_a_sample_is_always_the_same(
    data: Path, tmp_path: Path
) -> None:
    whole = write_rows(tmp_path / "whole", Sizes())
    found = {name: read_rows(getattr(whole, name), GENERATION) for name in ("train", "dev", "test")}
    assert {name: len(rows) for name, rows in found.items()} == {"train": 12, "dev": 12, "test": 12}
    small = Sizes(train=5, dev=4, test=2)
    few, again = (write_rows(tmp_path / name, small) for name in ("few", "again"))
    assert len(read_rows(few.train, GENERATION)) == 5
    assert len(read_rows(few.dev, GENERATION)) == 4
    assert few.train.read_bytes() == again.train.read_bytes()


def test_peft_learns_the_same_tokens_of_the_same_weights(
    root: SharedRoot, data: Path, tmp_path: Path
) -> None:
    rows = read_rows(write_rows(tmp_path / "rows", Sizes(train=5)).train, GENERATION)
    found = [root.tokenizer.sequence(row) for row in rows]
    sequences = [one for one in found if one is not None]
    model = AutoModelForCausalLM.from_pretrained(root.checkpoint)
    batch = {name: torch.tensor(value) for name, value in padded(list(map(row_of, sequences))).items()}
    with torch.no_grad():
        theirs = float(model(**batch).loss)
    split = GenerativeSplit(sequences, FrozenStates(root.decoder, sequences, 0, NullReporter()))
    assert split_loss(root.decoder, None, split, 10_000, NullReporter()) == pytest.approx(theirs, rel=1e-4)
    assert len({len(one) for one in sequences}) > 1, "nothing was padded"


def test_perfect_answers_have_a_bleu_of_100_whichever_reference_they_are() -> None:
    last = answers(*(sentences(name)[2] for name in NAMES))
    assert [each.bleu for each in (PERFECT, last)] == pytest.approx([100, 100])
    assert [each.rouge_l for each in (PERFECT, last)] == pytest.approx([100, 100])
    assert WRONG.bleu < 60


def test_the_error_of_a_difference_is_that_of_the_prompts() -> None:
    half = answers(*WRONG.texts[:2], *PERFECT.texts[2:])
    assert bleu_difference_error([PERFECT], [PERFECT]) == 0
    assert bleu_difference_error([PERFECT], [half]) > 3
    assert bleu_difference_error([PERFECT, PERFECT], [half, half]) == bleu_difference_error([PERFECT], [half])


def test_figures_say_how_much_better_the_default_is_than_the_choice_of_peft() -> None:
    trained = {
        DEFAULT: [TrainedLora(1.5, 1, 10.0)],
        DEEP: [TrainedLora(1.2, 1, 30.0)],
        PEERS: [TrainedLora(1.3, 1, 40.0)],
        SLOWER: [TrainedLora(1.9, 1, 40.0)],
    }
    chosen = choose({candidate: runs[0].dev_loss for candidate, runs in trained.items()})
    assert chosen == {HMI: DEEP, PEFT: PEERS}
    found = figures_of(DEFAULT, chosen, trained, {DEFAULT: [WRONG], DEEP: [PERFECT], PEERS: [PERFECT]})
    assert found["bleu_vs_peft"] == pytest.approx(WRONG.bleu - 100)
    assert found["bleu_vs_peft_chosen"] == pytest.approx(0)
    assert found["dev_loss_vs_peft"] == pytest.approx(0.2)
    assert found["training_time_vs_peft"] == pytest.approx(0.25)


@pytest.mark.thorough
@pytest.mark.timeout(BUILDING_S)
def test_the_command_trains_both_sides_and_computes_nothing_twice(
    peft: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint, told = tiny_decoder_folder(tmp_path / "checkpoint"), tmp_path / "report.json"
    small = ["--cut", "2", "--cut", "0", "--rows", "8", "--epochs", "2", "--test-prompts", "2"]
    where = ["--checkpoint", str(checkpoint), "--json", str(told)]
    assert main(["--quick", *small, *where], python=peft) == 0
    capsys.readouterr()
    document = json.loads(told.read_text())
    assert [(row["training"], row["layers with LoRA"]) for row in document["rows"]] == [
        ("HMI (default)", 1),
        ("HMI", 3),
        ("PEFT", 3),
        ("PEFT", 3),
    ]
    assert document["rows"][0]["BLEU"]
    assert {"bleu_vs_peft", "bleu_vs_peft_chosen", "training_time_vs_peft"} <= document["figures"].keys()
    assert main(["--quick", *small, *where], python=tmp_path / "none") == 0
    assert "side=" not in capsys.readouterr().out
    assert json.loads(told.read_text())["figures"] == document["figures"]


@pytest.fixture
def peft() -> Path:
    """The Python of the environment that has it."""
    try:
        return peers_python(packages=HTTP_PACKAGES)
    except PeerUnavailable as error:
        skip_unless_ci(str(error))
