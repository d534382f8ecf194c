"""No text of the demo, nor a near copy of it, stands in two splits."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from demo.datasets import SPLITS, assign_splits, near_copy_groups

WORDS = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"]), min_size=1, max_size=30)


def test_a_copy_with_one_word_changed_goes_where_its_original_goes() -> None:
    original = " ".join(f"word{number}" for number in range(60))
    copy = original.replace("word59", "another")
    others = [f"quite different text number {number} about {number * 7} things" for number in range(200)]
    groups = near_copy_groups([original, *others, copy])
    assert groups[0] == groups[-1]
    splits = assign_splits([original, *others, copy])
    assert splits[0] == splits[-1]


def test_texts_that_share_nothing_stand_alone() -> None:
    texts = [f"a{number} b{number} c{number} d{number} e{number}" for number in range(100)]
    assert len(set(near_copy_groups(texts).tolist())) == len(texts)


@given(st.lists(WORDS, min_size=1, max_size=20))
def test_equal_texts_always_meet(texts: list[list[str]]) -> None:
    listed = [" ".join(words) for words in texts]
    splits = dict(zip(listed, assign_splits(listed), strict=True))
    assert assign_splits(listed + listed)[len(listed) :] == [splits[text] for text in listed]


def test_the_shares_are_about_eight_to_one_to_one() -> None:
    texts = [f"a{number} b{number} c{number} d{number}" for number in range(3_000)]
    counted = Counter(assign_splits(texts))
    assert set(counted) == set(SPLITS)
    assert 0.77 < counted["train"] / len(texts) < 0.83
    assert 0.08 < counted["dev"] / len(texts) < 0.12
