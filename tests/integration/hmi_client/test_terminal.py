"""What a person at a terminal sees, and what a pipe gets."""

from pathlib import Path

import pytest

from tenants.datasets.models import Dataset
from tests.integration.hmi_client.conftest import Hmi, Product
from tests.integration.hmi_client.scripted import Reply, Script
from tests.integration.hmi_client.terminal import hmi_in_terminal
from tests.integration.hmi_client.test_streams import chunk, sent
from tests.integration.jobs.world import mood_rows
from tests.unit.tenants.files import jsonl

WRITTEN = ("one\ttwo\n\x1b", "]0;title\x07 \x9b31m\x7f\x08three é 語")
SHOWN = "one\ttwo\n]0;title 31mthree é 語\n"


def chat() -> Reply:
    return sent(*map(chunk, WRITTEN), chunk(reason="stop"), "[DONE]")


def completion() -> Reply:
    ends = (None, "stop")
    choices = [
        {"index": 0, "text": text, "finish_reason": end} for text, end in zip(WRITTEN, ends, strict=True)
    ]
    return sent(*({"id": "c1", "model": "acme/writer:1", "choices": [one]} for one in choices), "[DONE]")


def environment(url: str, key: str, folder: Path) -> dict[str, str]:
    return {"HMI_URL": url, "HMI_API_KEY": key, "XDG_CONFIG_HOME": str(folder / "config")}


def test_a_terminal_gets_no_control_characters_of_a_completion(script: Script, tmp_path: Path) -> None:
    script.replies.append(completion())
    with hmi_in_terminal(
        "generate", "acme/writer", "Once", env=environment(script.url, "secret", tmp_path)
    ) as terminal:
        assert terminal.end() == 0
        assert terminal.text == SHOWN


def test_a_terminal_gets_no_control_characters_of_a_chat_and_the_model_gets_its_own_back(
    script: Script, tmp_path: Path
) -> None:
    script.replies += [chat(), chat()]
    with hmi_in_terminal("chat", "acme/writer", env=environment(script.url, "secret", tmp_path)) as terminal:
        for message in ("Hello", "Again"):
            terminal.answer("> ", message)
        terminal.end_input("> ")
        assert terminal.end() == 0
        assert SHOWN in terminal.text
    assert script.asked[-1].body["messages"][1]["content"] == "".join(WRITTEN)


def test_a_pipe_gets_the_text_as_it_is(script: Script, hmi: Hmi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMI_URL", script.url)
    monkeypatch.setenv("HMI_API_KEY", "secret")
    script.replies += [completion(), chat()]
    for command in (("generate", "acme/writer", "Once"), ("chat", "acme/writer")):
        ran = hmi(*command, stdin="Hello")
        assert (ran.code, ran.out) == (0, "".join(WRITTEN) + "\n"), ran.err


def test_a_pushed_file_has_a_bar_with_its_size_and_then_a_sentence(site: Product, tmp_path: Path) -> None:
    file = tmp_path / "again.jsonl"
    file.write_text(jsonl(mood_rows()))
    size = f"{file.stat().st_size / 1000:.1f}"
    env = environment(site.url, site.key, tmp_path)
    with hmi_in_terminal("data", "push", file, "--task", "classification", env=env) as terminal:
        terminal.wait_for("again.jsonl", f"{size}/{size} kB")
        terminal.wait_for("Dataset", "(again) is stored.")
        assert terminal.end() == 0
    assert Dataset.unscoped.filter(name="again").exists()
