"""Chat messages by the templates of checkpoints, published and hostile ones."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from inference.errors import HplmError
from inference.text import template_renderer
from inference.text.chat_template import MAX_CHARACTERS, MAX_MESSAGES, ROLES, ChatMessage, ChatTemplate
from inference.text.template_renderer import MAX_CPU_S

NOW = datetime(2026, 7, 1, tzinfo=UTC)
TALK = [ChatMessage("system", "Be brief."), ChatMessage("user", " Hi "), ChatMessage("assistant", "Hello")]
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are helpful<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Of SmolLM2."""
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}"
    "{% endfor %}"
)
QWEN_3 = (
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}"
    "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}"
    "{%- if ns.multi_step_tool and message.role == 'user' and message.content is string and "
    "not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}"
    "{%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{%- endif %}{%- endfor %}"
    "{%- for message in messages %}{%- if tools %}{{- tools | tojson(indent=4) }}{%- endif %}"
    "{%- if '</think>' in message.content %}"
    "{%- set content = message.content.split('</think>')[-1].lstrip('\\n') %}"
    "{%- else %}{%- set content = message.content | trim %}{%- endif %}"
    "{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{{- ns.last_query_index }}"
)
VALUES = "{% set ns = namespace(x=(1,)) %}{% for a in range(40) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"
"""x: tuples within tuples."""
DOUBLED = "{% set ns = namespace(x='ab') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
SLOW = {
    "loops in loops": LOOP,
    "a nested tuple as a subscript": VALUES + "{{ {}[ns.x] }}",
    "a doubled text": DOUBLED,
    "a multiple when it is compiled": "{% if false %}{{ 9 ** (9 ** 9) }}{% endif %}",
}
"""What only the limits of time and memory end."""
HOSTILE = SLOW | {
    "endless output": "{% for a in range(99999) %}{% for b in range(99) %}"
    + "a" * 999
    + "{% endfor %}{% endfor %}",
    "half a character": "{{ '\\ud800' }}",
    "Python's classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "names with a meaning": "{% set ns = namespace(__call__=strftime_now) %}{{ ns('%Y') }}",
    "names that get a meaning": "{% set ns = namespace() %}{% set ns.__self__ = 'a' %}",
    "a changed list": "{{ messages.append(1) }}",
    "another file": "{% include '/etc/passwd' %}",
    "deep brackets": "{{ " + "(" * 9999 + ")" * 9999 + " }}",
    "not a template": "{% for %}",
    "no function": "{{ missing.attribute }}",
}


def rendered(source: str | None, messages: list[ChatMessage] = TALK, open_turn: bool = True) -> str:
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    return template.render(messages, now=NOW, open_turn=open_turn)


def test_message_of_a_refusing_template_is_in_the_error() -> None:
    with pytest.raises(HplmError, match="invalid_field: the chat template says: “Conversation roles must"):
        rendered(LLAMA_2, [TALK[2]])


def test_a_template_may_write_the_date() -> None:
    assert rendered("{{ strftime_now('%d %b %Y') }}") == "01 Jul 2026"


talks = st.lists(
    st.builds(
        ChatMessage,
        st.sampled_from(ROLES),
        st.text(st.sampled_from("ab {}%<>/\n\té'\"") | st.characters(codec="utf-8"), max_size=20)
        | st.just("<think>a</think>b"),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("source", [CHATML, LLAMA_2, QWEN_3])
@settings(max_examples=40, deadline=None)
@given(talk=talks, open_turn=st.booleans())
def test_any_talk_is_written_as_transformers_writes_it(
    source: str, talk: list[ChatMessage], open_turn: bool
) -> None:
    asked = [{"role": message.role, "content": message.content.replace("\0", "")} for message in talk]
    how: Any = {
        "chat_template": source,
        "add_generation_prompt": open_turn,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    try:
        written: Any = render_jinja_template([asked], **how)
    except TemplateError:
        with pytest.raises(HplmError):
            rendered(source, [ChatMessage(**message) for message in asked], open_turn)
    else:
        assert rendered(source, [ChatMessage(**message) for message in asked], open_turn) == written[0][0]


def test_the_variables_of_tools_are_there_and_none() -> None:
    source = "{% if tools is not none or documents is not none %}tools{% endif %}{{ dict(a=1).a }}"
    assert rendered(source) == "1"


def test_the_generation_tag_is_left_out() -> None:
    assert rendered("{% generation %}{{ messages[0].content }}{% endgeneration %}!") == "Be brief.!"


def renderer() -> psutil.Process:
    """The process that renders for this one."""
    (found,) = (each for each in psutil.Process().children() if "template_sandbox" in str(each.cmdline()))
    return found


def render_cpu_s() -> float:
    """Processor time of all processes that rendered."""
    ended, running = resource.getrusage(resource.RUSAGE_CHILDREN), renderer().cpu_times()
    return float(ended.ru_utime + ended.ru_stime + running.user + running.system)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_fails_before_it_costs_much(name: str) -> None:
    rendered(CHATML)
    own, others = time.process_time(), render_cpu_s()
    with pytest.raises(HplmError) as raised:
        rendered(HOSTILE[name])
    assert raised.value.code in {"unsupported_checkpoint", "invalid_field"}
    assert len(raised.value.message) < 300
    assert ("0.5 s of processor time or 256 MiB of memory" in raised.value.message) == (name in SLOW)
    assert rendered(CHATML).startswith("<|im_start|>system")
    assert time.process_time() - own < 2
    assert render_cpu_s() - others < 2 * MAX_CPU_S + 4  # two processes, with their starts


def test_a_template_that_took_too_long_is_refused_at_once_for_chats_of_that_size() -> None:
    template = ChatTemplate("{% if messages[0].content | length > 999 %}" + LOOP + "{% endif %}ok")
    short, long = ([ChatMessage("user", "a" * length)] for length in (9, 9999))
    with pytest.raises(HplmError, match="processor time"):
        template.render(long, now=NOW)
    assert template.render(short, now=NOW) == "ok"
    before = renderer()
    with pytest.raises(HplmError, match="processor time"):
        template.render(long, now=NOW)
    assert renderer() == before


def test_a_slow_template_holds_up_others_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_renderer, "TURN_S", 60)
    slow = ChatTemplate(LOOP.replace("99999", "999"))
    good = ChatTemplate(CHATML)
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(slow.render, TALK, now=NOW) for _ in range(8)]
        wait(waiting, return_when=FIRST_COMPLETED)
        good.render(TALK, now=NOW)
        assert not all(each.done() for each in waiting)


def test_requests_do_not_pile_up_behind_a_slow_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_renderer, "TURN_S", 0)
    slow = ChatTemplate(LOOP.replace("99999", "999"))
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(slow.render, TALK, now=NOW) for _ in range(8)]
    errors = [each.exception() for each in results]
    assert errors.count(None) >= 1
    assert {each.code for each in errors if isinstance(each, HplmError)} == {"queue_full"}


def test_a_renderer_that_was_killed_is_started_again() -> None:
    expected, before = rendered(CHATML), renderer()
    before.kill()
    assert rendered(CHATML) == expected
    assert renderer() != before


def test_a_forked_process_has_a_renderer_of_its_own() -> None:
    expected, before = rendered(CHATML), renderer()
    if (child := os.fork()) == 0:
        os._exit(0 if rendered(CHATML) == expected and renderer() != before else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (rendered(CHATML), renderer()) == (expected, before)


def test_a_renderer_ends_with_its_parent_which_loads_no_jinja2() -> None:
    program = (
        "import os, sys, inference.text.chat_template as c; c.ChatTemplate();"
        "os.kill(os.getpid(), 2 if 'jinja2' in sys.modules else 9)"
    )
    # The renderer holds stderr open while it runs.
    ended = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, timeout=120)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, b"")


def test_a_message_is_not_a_template() -> None:
    assert "{{ 7 * 7 }}" in rendered(CHATML, [ChatMessage("user", "{{ 7 * 7 }}")])


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "missing_field: messages must hold"),
        ([ChatMessage("user", "a")] * (MAX_MESSAGES + 1), "invalid_field: 2,049 messages were given"),
        (
            [TALK[0], ChatMessage("tool", "a")],
            r"invalid_field: messages\[1\].role must be one of system, user",
        ),
        ([ChatMessage("user", "a\0")], r"invalid_encoding: messages\[0\].content holds a NUL"),
        ([ChatMessage("user", "\ud800")], r"invalid_encoding: messages\[0\].content holds half"),
        ([ChatMessage("user", "a", name="\udc00")], r"invalid_encoding: messages\[0\].name"),
        ([ChatMessage("user", "a" * MAX_CHARACTERS)] * 2, "body_too_large: the messages have 4,194,304"),
    ],
)
def test_messages_that_are_not_valid_are_named(messages: list[ChatMessage], says: str) -> None:
    with pytest.raises(HplmError, match=says):
        rendered(CHATML, messages)


def test_a_root_has_the_template_of_its_files(tmp_path: Path) -> None:
    config = {"chat_template": "{{ bos_token }}config", "bos_token": {"content": "<s>"}, "eos_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert ChatTemplate.of_root(tmp_path).render(TALK, now=NOW) == "<s>config"
    several = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": several}))
    assert ChatTemplate.of_root(tmp_path).render(TALK, now=NOW) == "default"
    (tmp_path / "chat_template.jinja").write_text("file")
    assert ChatTemplate.of_root(tmp_path).render(TALK, now=NOW) == "file"


def test_a_root_without_a_template_has_the_default_one(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    template = ChatTemplate.of_root(tmp_path)
    assert template.render(TALK, now=NOW) == "System: Be brief.\nUser:  Hi \nAssistant: Hello</s>\nAssistant:"


@pytest.mark.parametrize("content", ["[", "[1]", '{"chat_template": 7}'])
def test_a_config_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(HplmError, match="unsupported_checkpoint"):
        ChatTemplate.of_root(tmp_path)


def test_a_template_that_is_too_long_is_refused() -> None:
    with pytest.raises(HplmError, match="at most 131,072"):
        ChatTemplate("a" * 200_000)
