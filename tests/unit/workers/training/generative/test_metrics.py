"""Metrics of generated texts."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.training.generative.metrics import bleu, exact_match, generation_metrics, rouge_l, text_scores


def test_the_reference_itself_is_perfect_and_another_text_is_not() -> None:
    wanted = [["Aromi is a cheap pub in the city."], ["Zizzi is a family restaurant."]]
    same = [texts[0] for texts in wanted]
    assert rouge_l(wanted, same) == exact_match(wanted, same) == 1.0
    assert bleu(wanted, same) == pytest.approx(1.0)
    other = ["nothing of it", "at all"]
    assert (rouge_l(wanted, other), exact_match(wanted, other)) == (0.0, 0.0)
    assert bleu(wanted, other) < 0.1


def test_rouge_l_is_the_f1_of_the_longest_common_subsequence() -> None:
    # "the cat on mat" is in order: 4 of 6 and of 5 words.
    found = rouge_l([["the cat sat on the mat"]], ["The cat on a mat!"])
    assert found == pytest.approx(2 * (4 / 6) * (4 / 5) / (4 / 6 + 4 / 5))


def is_within(words: tuple[str, ...], others: list[str]) -> bool:
    rest = iter(others)
    return all(word in rest for word in words)


@given(*[st.lists(st.sampled_from("abc"), min_size=1, max_size=7)] * 2)
def test_no_common_subsequence_is_longer_than_what_counts(wanted: list[str], found: list[str]) -> None:
    longest = max(
        size
        for size in range(len(wanted) + 1)
        if any(is_within(words, found) for words in combinations(wanted, size))
    )
    score = rouge_l([[" ".join(wanted)]], [" ".join(found)])
    assert score == pytest.approx(2 * longest / (len(wanted) + len(found)))


def test_the_closest_of_several_references_counts() -> None:
    wanted = [["a red door", "the green door"], ["a house"]]
    predicted = ["the green door", "a house"]
    assert (rouge_l(wanted, predicted), exact_match(wanted, predicted)) == (1.0, 1.0)
    assert rouge_l([["a red door"], ["a house"]], predicted) < 1


def test_each_text_has_its_score_and_the_reference_that_it_is_closest_to() -> None:
    wanted = [["a red door", "the green door", "the green door!"], ["a house"]]
    found = text_scores(wanted, ["the green door", "nothing"])
    assert [(one.rouge_l, one.reference) for one in found] == [(1.0, "the green door"), (0.0, "a house")]


def test_words_of_every_script_count() -> None:
    assert rouge_l([["добрый день"]], ["Добрый вечер"]) == pytest.approx(0.5)


def test_only_white_space_around_a_text_is_ignored() -> None:
    assert exact_match([["yes"], ["yes"], ["yes"]], [" yes\n", "Yes", "yes."]) == pytest.approx(1 / 3)


def test_the_baseline_always_writes_the_most_frequent_completion_of_train() -> None:
    found = generation_metrics([["yes"], ["no"]], ["no", "no"], train=["yes", "no", "yes"])
    assert (found["metric"], found["value"], found["majority_baseline"]) == ("rouge_l", 0.5, 0.5)
    assert found["exact_match"] == 0.5
