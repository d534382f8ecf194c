"""Patterns of module names match as PEFT has them match, and never take long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import HplmError
from inference.hplm.adapter_io.name_patterns import (
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    check_patterns,
    name_pattern,
)

NAMES = (
    "encoder.layer.0.attention.self.query",
    "encoder.layer.11.attention.self.value",
    "encoder.layer.1.output.dense",
    "transformer.layer.3.ffn.lin1",
    "query",
)
READ = (
    "query",
    r"^encoder\.layer\.0\.attention\.self\.query$",
    "layer.[0-9]+.attention.self.[qv].*",
    r"\w+1?",
    "ery",
    r"(encoder\.)?layer\.(1(1)?|0)\..*?(query|value)",
    "(^encoder|^transformer).*lin1$",
    "lin[0-9]??",
)
REFUSED = (
    "([a-z0-9.]+)+X",
    "(a|a)*b",
    "(query",
    "query)",
    "(query|key){2}",
    "(?i)query",
    "(" * 11 + "query" + ")" * 11,
    "[a-z",
    "[^a]",
    "[z-a]",
    "a{1000}",
    "a**",
    "*a",
    r"\1",
    "\\",
    "query\n",
    "a" * (MAX_PATTERN_LENGTH + 1),
)


@pytest.mark.parametrize("pattern", READ)
def test_what_is_read_matches_as_in_peft(pattern: str) -> None:
    for name in NAMES:
        expected = re.match(rf"(.*\.)?({pattern})$", name) is not None
        assert name_pattern(pattern).matches(name) == expected, name


STEPS = st.builds(
    str.__add__,
    st.sampled_from(["a", "b", ".", r"\.", r"\d", "[0-9]", "[a1]"]),
    st.sampled_from(["", "?", "*", "+", "*?"]),
)
GROUPS = st.recursive(
    STEPS | st.sampled_from(["^", "$"]),
    lambda parts: st.builds(
        lambda groups, opening, sign: f"{opening}{'|'.join(map(''.join, groups))}){sign}",
        st.lists(st.lists(parts, max_size=3), min_size=1, max_size=3),
        st.sampled_from(["(", "(?:"]),
        st.sampled_from(["", "?"]),
    ),
    max_leaves=6,
)


@given(st.lists(GROUPS, max_size=5), st.text("ab1.", max_size=9))
def test_any_pattern_that_is_read_matches_as_in_peft(parts: list[str], name: str) -> None:
    pattern = "".join(parts)
    assert name_pattern(pattern).matches(name) == (re.match(rf"(.*\.)?({pattern})$", name) is not None)
    assert name_pattern(pattern).matches_whole(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_refused_by_name(pattern: str) -> None:
    with pytest.raises(HplmError) as caught:
        check_patterns({pattern: 4}, "rank_pattern")
    assert repr(pattern[:60]) in caught.value.message


def test_repetitions_one_behind_another_end_soon() -> None:
    assert not name_pattern(".*" * (MAX_PATTERN_LENGTH // 2 - 1) + "X").matches("a" * 500)


def test_there_are_not_more_patterns_than_a_model_has_maps() -> None:
    with pytest.raises(HplmError, match="patterns"):
        check_patterns({f"layer.{number}": 4 for number in range(MAX_PATTERNS + 1)}, "rank_pattern")
