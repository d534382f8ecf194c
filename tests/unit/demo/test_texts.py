"""The demo's datasets and corpora, as made of the packages of this environment."""

import re
from itertools import combinations

import pytest

from demo.datasets import TASKS, DemoTask, Example
from demo.docstrings import docstrings
from demo.generative import WRITING_TASKS
from demo.size import DemoSize
from demo.splits import SPLITS
from demo.texts import DemoTexts
from tenants.datasets.formats.lines import fingerprint

pytestmark = pytest.mark.slow

FULL, SMALL = DemoTexts(DemoSize()), DemoTexts(DemoSize(0.02))
SHINGLE_WORDS = 4
NEAR_COPY = 0.75


def shingles(example: Example) -> frozenset[tuple[str, ...]]:
    """Of the text that is learned: an answer if there is one."""
    words = re.findall(r"\w+", (example.answer or example.text).lower())
    count = max(1, len(words) - SHINGLE_WORDS + 1)
    return frozenset(tuple(words[start : start + SHINGLE_WORDS]) for start in range(count))


@pytest.mark.parametrize("task", [*TASKS, *WRITING_TASKS], ids=lambda task: task.hplm)
def test_no_near_copy_of_a_text_is_in_another_split(task: DemoTask) -> None:
    dataset = FULL.dataset(task)
    parts = {split: [(shingles(example), example) for example in dataset[split]] for split in SPLITS}
    for one, other in combinations(SPLITS, 2):
        for own, example in parts[one]:
            for theirs, copy in parts[other]:
                assert len(own & theirs) < NEAR_COPY * len(own | theirs), (example, copy)


@pytest.mark.parametrize("task", [*TASKS, *WRITING_TASKS], ids=lambda task: task.hplm)
def test_a_dataset_is_the_same_each_time_and_has_no_text_twice(task: DemoTask) -> None:
    dataset = SMALL.dataset(task)
    assert SMALL.dataset(task) == dataset
    examples = [fingerprint(example.text) for split in SPLITS for example in dataset[split]]
    assert len(set(examples)) == len(examples)
    assert [len(dataset[split]) for split in SPLITS] == [120, 15, 30]


@pytest.mark.parametrize("task", [*TASKS, *WRITING_TASKS], ids=lambda task: task.hplm)
def test_the_text_to_try_is_not_in_the_dataset(task: DemoTask) -> None:
    assert task.try_text not in {example.text for split in FULL.dataset(task).values() for example in split}


def test_the_first_task_needs_no_domain() -> None:
    assert (TASKS[0].task, TASKS[0].under_domain) == ("classification", False)


def test_the_domain_learns_from_training_texts_alone() -> None:
    lines = set(FULL.corpus(0).decode().splitlines())
    held_out = {" ".join(found.text.split()) for name in ("dev", "test") for found in docstrings(name)}
    assert lines
    assert lines.isdisjoint(held_out)


def test_however_small_the_demo_its_corpus_is_enough_for_a_domain() -> None:
    assert len(SMALL.corpus(0).split()) < 20_000 <= len(SMALL.corpus(20_000).split())
