"""The messages that the demo's generative model learns from, and their answers."""

import json
from itertools import combinations
from typing import Any

import pytest

from demo.datasets import Example
from demo.splits import SPLITS
from demo.support_messages import REQUESTS, support_messages


def answers(split: str) -> list[dict[str, Any]]:
    return [json.loads(example.answer) for example in support_messages(split)]


def without_values(example: Example) -> str:
    answer = json.loads(example.answer)
    return example.text.replace(str(answer["order"]), "").replace(answer["item"], "")


@pytest.mark.parametrize("split", SPLITS)
def test_the_order_and_the_item_of_the_answer_stand_in_the_message(split: str) -> None:
    for example in support_messages(split):
        answer = json.loads(example.answer)
        assert list(answer) == ["action", "order", "item"]
        assert str(answer["order"]) in example.text
        assert answer["item"] in example.text


@pytest.mark.parametrize("split", SPLITS)
def test_every_action_is_asked_for_equally_often(split: str) -> None:
    actions = [answer["action"] for answer in answers(split)]
    assert {actions.count(action) for action in REQUESTS} == {len(actions) // len(REQUESTS)}


@pytest.mark.parametrize("key", ["order", "item"])
def test_no_order_and_no_item_is_in_two_splits(key: str) -> None:
    values = [{answer[key] for answer in answers(split)} for split in SPLITS]
    assert all(one.isdisjoint(other) for one, other in combinations(values, 2))


def test_no_message_is_one_of_another_split_with_another_order_and_item() -> None:
    phrases = [set(map(without_values, support_messages(split))) for split in SPLITS]
    assert all(one.isdisjoint(other) for one, other in combinations(phrases, 2))
