"""The demo's texts, as collected from the packages of this environment."""

import io

import pytest
from rich.console import Console

from demo.datasets import TASKS, DemoTask, near_copy_groups
from demo.generative import WRITING_TASKS
from demo.size import DemoSize
from demo.texts import DemoTexts, collect_texts
from tenants.datasets.formats.lines import fingerprint

pytestmark = pytest.mark.slow

SIZE = DemoSize(0.02)


@pytest.fixture(scope="module")
def texts() -> DemoTexts:
    return collect_texts(SIZE, Console(file=io.StringIO()))


@pytest.mark.parametrize("task", [*TASKS, *WRITING_TASKS], ids=lambda task: task.hplm)
def test_no_near_copy_stands_in_two_splits_of_a_dataset(texts: DemoTexts, task: DemoTask) -> None:
    dataset = texts.dataset(task)
    examples = [example for split in dataset.values() for example in split]
    assert all(dataset.values())
    compared = [example.compared_text for example in examples]
    assert len(set(near_copy_groups(compared).tolist())) == len(examples)
    assert len({fingerprint(example.text) for example in examples}) == len(examples)


def test_the_corpus_holds_training_corpus_alone(texts: DemoTexts) -> None:
    lines = set(texts.corpus(0).decode().splitlines())
    held_out = {" ".join(found.text.split()) for name in ("dev", "test") for found in texts.by_split[name]}
    assert lines
    assert lines.isdisjoint(held_out)


def test_however_small_the_demo_its_corpus_is_enough_for_a_domain(texts: DemoTexts) -> None:
    assert len(texts.corpus(0).split()) < 20_000 <= len(texts.corpus(20_000).split())
