"""Sizes of models and PETs as the paper states them, and how many fit."""

import pytest

from benchmarks.pets.kinds import ADAPTER, KINDS, LORA, draw_kinds, upper_shape, work
from benchmarks.pets.tasks_in_memory import (
    MODELS,
    PAPER,
    THIS_MACHINE,
    figures,
    rows,
    sizes,
    tasks_by_models,
    tasks_by_pets,
)
from benchmarks.serving.world import DEMO

BASE = sizes(MODELS[1])


def test_sizes_are_those_of_the_papers_tables() -> None:
    assert BASE.layers == pytest.approx(0.35e9, rel=0.05)  # section 6.3.2
    head = 4 * 3 * 769
    assert BASE.pets[ADAPTER] == 4 * 12 * 2 * (2 * 768 * 64 + 64 + 768) + head
    assert BASE.bit_masks / BASE.layers == pytest.approx(1 / 32, rel=0.01)  # table 1: 3 %
    assert BASE.pets["Diff-pruning"] / BASE.layers < 0.0125  # 0.5 % of the weights, with their indices
    assert min(BASE.pets, key=BASE.pets.__getitem__) == "BitFit"


def test_shared_layers_count_once_and_the_batch_for_all() -> None:
    memory = BASE.batch + BASE.layers + 10 * BASE.mean_pet
    assert tasks_by_pets(BASE, memory + 1) == 10
    assert tasks_by_models(BASE, BASE.batch + 3.5 * BASE.layers) == 3
    assert tasks_by_pets(BASE, 0) == tasks_by_models(BASE, 0) == 0


def test_every_platform_of_the_paper_stands_beside_its_figures() -> None:
    found = rows(16e9)
    assert {(row["platform"], row["model"]) for row in found if row["paper"]} == PAPER.keys()
    own = {row["model"]: row for row in found if row["platform"] == THIS_MACHINE}
    assert figures(found)["tasks_in_memory_vs_dedicated"] == own["DistilBERT"]["ratio"]


def test_a_loras_work_is_two_flop_for_each_weight_and_token() -> None:
    shape = upper_shape(DEMO)
    pairs = 16 * (4 * 2 * 384 + 2 * (384 + 1536))
    biases = 5 * 384 + 1536 + 4 * 384
    assert work(LORA, shape, 10, 4).flop == 10 * 3 * (2 * pairs + biases)


def test_kinds_are_drawn_as_often_as_each_other() -> None:
    kinds = draw_kinds(4 * len(KINDS), seed=3)
    assert {kinds.count(kind) for kind in kinds} == {4}
    assert draw_kinds(4 * len(KINDS), seed=4) != kinds
