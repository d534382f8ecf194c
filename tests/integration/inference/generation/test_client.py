"""The product's own client and command with generative models, against a web server."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.conftest import config as config
from tests.integration.hmi_client.conftest import hmi as hmi
from tests.integration.hmi_client.terminal import hmi_in_terminal
from tests.integration.inference.generation.conftest import Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker
from tests.integration.inference.web_server import WebServer
from tests.processes import wait_until
from tests.unit.tiny_decoder import EOS, byte_tokenizer

pytestmark = pytest.mark.django_db
PROMPT = "> "


@pytest.fixture
def signed_in(hmi: Hmi, server: WebServer, served: Served, monkeypatch: pytest.MonkeyPatch) -> Hmi:
    """Runs the command with acme's key."""
    monkeypatch.setenv("HMI_URL", server.url)
    monkeypatch.setenv("HMI_API_KEY", served.key)
    return hmi


def asked(worker: ScriptedWorker) -> str:
    """The text of the last prompt."""
    ids = np.frombuffer(worker.received[-1].sequences[0].ids, "<i4").tolist()
    text: str = byte_tokenizer().decode(ids, skip_special_tokens=False)
    return text


def test_generate_prints_the_text_of_an_argument_or_of_stdin(signed_in: Hmi, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of(" the end"), EOS)
    ran = signed_in("generate", "acme/writer", "Once", "--max-tokens", 20, "--seed", 7, "--top-p", 0.5)
    assert (ran.code, ran.out) == (0, " the end\n"), ran.err
    sampling = worker.received[-1].generate
    assert sampling is not None
    assert (sampling.seed, sampling.top_p, sampling.max_tokens) == (7, 0.5, 20)
    ran = signed_in("generate", "acme/writer", "-", "--max-tokens", 20, "--stop", "end", stdin="Twice")
    assert (ran.out, asked(worker)) == (" the \n", "Twice")
    ran = signed_in("generate", "acme/writer", "Once", "--json", "--max-tokens", 20, "--temperature", 0)
    told = json.loads(ran.out)
    assert (told["text"], told["finish_reason"], told["model"]) == (" the end", "stop", "acme/writer:1")
    assert told["usage"]["completion_tokens"] == len(tokens_of(" the end")) + 1


def test_chat_without_a_terminal_takes_one_message_and_gives_one_answer(
    signed_in: Hmi, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("Good day"), EOS)
    ran = signed_in("chat", "acme/writer", "--system", "Be kind.", stdin="Hello")
    assert (ran.code, ran.out) == (0, "Good day\n"), ran.err
    assert asked(worker) == "[system]Be kind.\n[user]Hello\n[assistant]"


def test_a_session_remembers_forgets_outlives_ctrl_c_and_ends_with_ctrl_d(
    server: WebServer, served: Served, worker: ScriptedWorker, tmp_path: Path
) -> None:
    env = {"HMI_URL": server.url, "HMI_API_KEY": served.key, "XDG_CONFIG_HOME": str(tmp_path)}
    with hmi_in_terminal("chat", "acme/writer", env=env) as terminal:
        terminal.wait_for(PROMPT)
        worker.says(*tokens_of("One"), EOS)
        terminal.type("A\n")
        terminal.wait_for("One")
        worker.says(*tokens_of("Two and more"), EOS, hold_after=len(tokens_of("Two")))
        terminal.type("B\n")
        terminal.wait_for("Two")
        assert asked(worker) == "[user]A\n[assistant]One\n[user]B\n[assistant]"
        terminal.interrupt()
        terminal.wait_for("Stopped.")
        wait_until(lambda: len(worker.cancelled) == 1)
        worker.says(*tokens_of("Three"), EOS)
        terminal.type("C\n")
        terminal.wait_for("Three")
        assert asked(worker).endswith("[user]B\n[assistant]Two\n[user]C\n[assistant]")
        terminal.type("/reset\n")
        terminal.wait_for("Conversation cleared.")
        worker.says(*tokens_of("Four"), EOS)
        terminal.type("D\n")
        terminal.wait_for("Four")
        assert asked(worker) == "[user]D\n[assistant]"
        terminal.end_input(PROMPT)
        assert terminal.end() == 0
