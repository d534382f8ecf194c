"""A test run without Chromium or axe-core says so, and fails where nobody would read it."""

from pathlib import Path

import pytest

from tests.e2e.axe import VERSION, axe_source
from tests.e2e.browser import chromium


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without Chromium, and a person at it."""
    monkeypatch.setenv("HMI_CHROMIUM", "/nowhere/chromium")
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_for_a_person_the_tests_are_skipped_with_advice(nowhere: pytest.MonkeyPatch, value: str) -> None:
    nowhere.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception, match=r"/nowhere/chromium.*apt-get install"):
        chromium()


@pytest.mark.parametrize("value", ["1", "true", "True", "yes", "woodpecker"])
def test_in_continuous_integration_they_fail(nowhere: pytest.MonkeyPatch, value: str) -> None:
    nowhere.setenv("CI", value)
    with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match="/nowhere/chromium") as end:
        chromium()
    assert end.type is pytest.fail.Exception


def test_it_may_be_named_by_path_or_by_name(nowhere: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "my-browser"
    program.touch(mode=0o755)
    nowhere.setenv("HMI_CHROMIUM", str(program))
    assert chromium() == str(program)
    nowhere.setenv("HMI_CHROMIUM", program.name)
    nowhere.setenv("PATH", str(tmp_path))
    assert chromium() == str(program)


def test_a_run_lists_what_it_skipped_and_why(pytestconfig: pytest.Config) -> None:
    assert set("fEs") <= set(pytestconfig.option.reportchars)


def test_without_a_way_to_the_registry_pages_are_not_said_to_be_right(
    nowhere: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere.setenv("PATH", str(tmp_path))
    nowhere.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(pytest.skip.Exception, match="axe-core"):
        axe_source(tmp_path)
    nowhere.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="axe-core"):
        axe_source(tmp_path)


def test_a_script_that_is_not_what_was_published_is_not_run(tmp_path: Path) -> None:
    (tmp_path / f"axe-core-{VERSION}.tgz").write_bytes(b"something else")
    with pytest.raises(ValueError, match="integrity"):
        axe_source(tmp_path)
