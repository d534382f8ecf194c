"""Which split a text of the demo is in."""

from collections import Counter

from demo.splits import SPLITS, part_of, split_of, without_near_copies


def test_texts_that_begin_alike_are_in_one_split() -> None:
    beginnings = [f"Enter a valid{number}" for number in range(50)]
    for beginning in beginnings:
        assert split_of(f"{beginning} date.") == split_of(f"{beginning.upper()}, time and place")
    assert len(set(map(split_of, beginnings))) == len(SPLITS)


def test_seven_tenths_are_for_training() -> None:
    shares = Counter(split_of(f"a{number} b c") for number in range(3_000))
    assert 0.67 < shares["train"] / 3_000 < 0.73
    assert 0.08 < shares["dev"] / 3_000 < 0.12


def test_each_value_is_in_one_part_and_three_fifths_are_for_training() -> None:
    parts = [part_of("abcdefghij", split) for split in SPLITS]
    assert sorted(value for part in parts for value in part) == list("abcdefghij")
    assert [len(part) for part in parts] == [6, 2, 2]


def test_a_text_that_shares_eight_words_in_a_row_with_an_earlier_one_is_left_out() -> None:
    first = "One two three four five six seven eight nine."
    copy = "And: two three four five six seven eight nine!"
    other = "And two three four five six seven, but no more."
    assert list(without_near_copies([first, copy, other, first], str)) == [first, other]
