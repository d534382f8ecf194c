"""What pages offer to copy is what the reader's machine will send, whatever the text."""

import ast
import json
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from frontend.presenters.snippets import Snippets, completion_snippets, embedding_snippets, snippets_of
from tenants.datasets.models import Task

URL = "https://hmi.example/api/v1/infer"
AWKWARD = 'it\'s "so" $HOME `id` \\ \n\t!! \r\u2028 \u202eabc\u200f مرحبا 👩‍🔬 %s {x} \x1b[31m'

texts = st.text(st.characters(exclude_categories=["Cs"]))
bodies = st.fixed_dictionaries(
    {"model": texts, "inputs": st.lists(texts | st.dictionaries(texts, texts, max_size=2), max_size=2)}
)


def sent_by_curl(command: str) -> list[str]:
    """The words that curl is given; a line that ends in a backslash goes on."""
    return shlex.split(command.replace(" \\\n", " "))


@given(bodies)
@example({"model": AWKWARD, "inputs": [AWKWARD]})
def test_the_curl_line_sends_exactly_this(body: dict[str, Any]) -> None:
    command = snippets_of(URL, body).curl
    program, url, header, key, flag, sent = sent_by_curl(command)
    assert (program, url, header, key) == ("curl", URL, "-H", "Authorization: Bearer $HMI_API_KEY")
    assert (flag, json.loads(sent)) == ("--json", body)
    assert all(letter.isprintable() for letter in command.replace("\n", ""))


@given(bodies)
@example({"model": AWKWARD, "inputs": [AWKWARD]})
def test_the_python_lines_send_exactly_this(body: dict[str, Any]) -> None:
    program = snippets_of(URL, body).python
    [call] = [
        node
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "httpx.post"
    ]
    assert ast.literal_eval(call.args[0]) == URL
    [sent] = [given.value for given in call.keywords if given.arg == "json"]
    assert ast.literal_eval(sent) == body
    assert all(letter.isprintable() for letter in program.replace("\n", ""))


BASE = "https://hmi.example/v1"


@pytest.mark.parametrize(
    ("snippets", "path", "call", "shown"),
    [
        (
            completion_snippets(BASE, Task.CHAT, "acme/writer"),
            "/chat/completions",
            "client.chat.completions.create",
            "choices[0].message.content",
        ),
        (
            completion_snippets(BASE, Task.GENERATION, "acme/writer"),
            "/completions",
            "client.completions.create",
            "choices[0].text",
        ),
        (
            embedding_snippets(BASE, "acme/vectors"),
            "/embeddings",
            "client.embeddings.create",
            "data[0].embedding",
        ),
    ],
)
def test_both_programs_send_the_same_to_openai_addresses(
    snippets: Snippets, path: str, call: str, shown: str
) -> None:
    _, url, *_, sent = sent_by_curl(snippets.curl)
    calls = {
        ast.unparse(node.func): {one.arg: one.value for one in node.keywords}
        for node in ast.walk(ast.parse(snippets.python))
        if isinstance(node, ast.Call)
    }
    assert url == BASE + path
    assert ast.literal_eval(calls["OpenAI"]["base_url"]) == BASE
    assert {name: ast.literal_eval(value) for name, value in calls[call].items()} == json.loads(sent)
    assert snippets.python.endswith(f"print(answer.{shown})")


def test_a_shell_reads_the_line_as_it_is_meant() -> None:
    body = {"model": "acme/a", "inputs": [AWKWARD]}
    script = f"curl() {{ printf '%s\\0' \"$@\"; }}\n{snippets_of(URL, body).curl}"
    environment = {"HMI_API_KEY": "key", "PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        ["bash", "-c", script], capture_output=True, check=True, env=environment, timeout=20
    ).stdout.decode()
    url, _, header, _, sent, _ = told.split("\0")
    assert (url, header, json.loads(sent)) == (URL, "Authorization: Bearer key", body)
