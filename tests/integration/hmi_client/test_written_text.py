"""Generated text as the command prints it, from a server that is told what to send."""

from pathlib import Path

import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.scripted import Reply, Script
from tests.integration.hmi_client.terminal import hmi_in_terminal
from tests.integration.hmi_client.test_streams import chunk, sent

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


def environment(script: Script, folder: Path) -> dict[str, str]:
    return {"HMI_URL": script.url, "HMI_API_KEY": "secret", "XDG_CONFIG_HOME": str(folder)}


def test_a_terminal_gets_no_control_characters_of_a_completion(script: Script, tmp_path: Path) -> None:
    script.replies.append(completion())
    with hmi_in_terminal("generate", "acme/writer", "Once", env=environment(script, tmp_path)) as terminal:
        assert terminal.end() == 0
        assert terminal.text == SHOWN


def test_a_terminal_gets_no_control_characters_of_a_chat_and_the_model_gets_its_own_back(
    script: Script, tmp_path: Path
) -> None:
    script.replies += [chat(), chat()]
    with hmi_in_terminal("chat", "acme/writer", env=environment(script, tmp_path)) as terminal:
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
