"""The readers of environment settings."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from hmi_site import env

NAME = "HMI_UNDER_TEST"


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(NAME, raising=False)
    return monkeypatch


def test_an_absent_or_empty_variable_means_the_default(setting: pytest.MonkeyPatch) -> None:
    assert env.integer(NAME, 7) == 7
    setting.setenv(NAME, "  ")
    assert env.integer(NAME, 7) == 7
    assert env.flag(NAME, True) is True
    assert env.path(NAME, Path("/x")) == Path("/x")
    assert env.optional_path(NAME) is None
    assert env.comma_separated(NAME, ["a"]) == ["a"]


def test_values_are_read(setting: pytest.MonkeyPatch) -> None:
    setting.setenv(NAME, " 12 ")
    assert env.integer(NAME, 0) == 12
    assert env.decimal(NAME, 0.0) == 12.0
    setting.setenv(NAME, "Off")
    assert env.flag(NAME, True) is False
    setting.setenv(NAME, "a, b,,c")
    assert env.comma_separated(NAME, []) == ["a", "b", "c"]
    setting.setenv(NAME, "sub/folder")
    assert env.path(NAME, Path("/x")) == Path.cwd() / "sub/folder"


@pytest.mark.parametrize("value", ["twelve", "-1", "70000"])
def test_a_number_that_makes_no_sense_stops_the_start_and_names_the_variable(
    setting: pytest.MonkeyPatch, value: str
) -> None:
    setting.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.integer(NAME, 1, minimum=0, maximum=65535)


@pytest.mark.parametrize("value", ["nan", "inf", "soon", "-0.5"])
def test_a_decimal_must_be_finite_and_in_range(setting: pytest.MonkeyPatch, value: str) -> None:
    setting.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.decimal(NAME, 1.0, minimum=0.0)


def test_a_flag_takes_no_other_words(setting: pytest.MonkeyPatch) -> None:
    setting.setenv(NAME, "maybe")
    with pytest.raises(ImproperlyConfigured, match="yes"):
        env.flag(NAME, False)


def test_a_choice_lists_what_it_takes(setting: pytest.MonkeyPatch) -> None:
    setting.setenv(NAME, "tpu")
    with pytest.raises(ImproperlyConfigured, match="cpu, cuda"):
        env.choice(NAME, "cpu", ["cpu", "cuda"])
