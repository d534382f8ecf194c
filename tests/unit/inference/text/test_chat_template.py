"""Chat messages by the templates of checkpoints, published and hostile ones."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from inference.errors import HplmError
from inference.text.chat_template import MAX_CHARACTERS, MAX_MESSAGES, ROLES, ChatMessage, ChatTemplate

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
    "{{- ns.last_query_index ~ ': ' ~ strftime_now('%d %b %Y') }}"
)
HOSTILE = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "a long range": "{{ range(999999999) | list }}",
    "loops over characters": "{% set x = 'a' * 9999 %}"
    "{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
    "a multiple of a text": "{{ 'a' * 999999999 }}",
    "a multiple of a list": "{% set x = [1] * 999999999 %}",
    "a power": "{{ 9 ** 9 ** 9 }}",
    "squares": "{% set ns = namespace(x=9) %}{% for a in range(99) %}"
    "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "a doubled text": "{% set ns = namespace(x='ab') %}{% for a in range(99) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "a summed text": "{% set ns = namespace(x='ab') %}{% for a in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "a doubled list": "{% set ns = namespace(x=['a']) %}{% for a in range(99) %}{% set ns.x = [ns.x, ns.x] %}"
    "{% endfor %}{{ ns.x }}",
    "a doubled list as JSON": "{% set ns = namespace(x=['a']) %}{% for a in range(99) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "a namespace of doubled lists": "{% set ns = namespace(x=['a']) %}{% for a in range(99) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns }}",
    "a wide format": "{{ '{:999999999}'.format('a') }}",
    "a wide conversion": "{{ '%999999999d' % 1 }}",
    "a width behind zeros": "{% set x = '%0000000001000000d' % 1 %}",
    "a width in other digits": "{% set x = '{:\u0661\u0660\u0660\u0660\u0660\u0660\u0660}'.format(1) %}",
    "work in exchange for a negative width": "{% set x = 'a' | center(-9999999999) %}"
    "{% for a in range(999999) %}{% endfor %}",
    "a wide column": "{{ 'a'.ljust(999999999) }}",
    "replacements": "{% set x = 'a' * 99999 %}{{ x.replace('a', x) }}",
    "a filter that replaces": "{% set x = 'a' * 99999 %}{{ x | replace('a', x) }}",
    "a wide join": "{% set x = 'a' * 99999 %}{{ x.join(x) }}",
    "a filter that joins": "{% set x = 'a' * 99999 %}{{ x | list | join(x) }}",
    "a recursive macro": "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
    "a recursive loop": "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "much text in loops": "{% set x %}{% for a in range(99999) %}" + "a" * 9999 + "{% endfor %}{% endset %}",
    "slices": "{% set x = 'a' * 99999 %}{% for a in range(99999) %}{% set y = x[1:] %}{% endfor %}",
    "Python's classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "attributes by filter": "{{ messages | map(attribute='__class__') "
    "| map(attribute='__mro__') | list | tojson }}",
    "globals of functions": "{{ raise_exception.__globals__ | tojson }}",
    "names with a meaning": "{% set ns = namespace(__call__=strftime_now) %}{{ ns('%Y') }}",
    "names that get a meaning": "{% set ns = namespace() %}{% set ns.__self__ = 'a' %}",
    "a changed list": "{{ messages.append(1) }}",
    "another file": "{% include '/etc/passwd' %}",
    "deep brackets": "{{ " + "(" * 9999 + ")" * 9999 + " }}",
    "deep conditions": "{% if a %}" * 999 + "{% endif %}" * 999,
    "a precise number": "{{ 1 | round(999999999, 'ceil') }}",
    "an unknown filter": "{{ 'a' | center(999999999) }}",
    "not a template": "{% for %}",
    "no function": "{{ missing.attribute }}",
}


def rendered(source: str | None, messages: list[ChatMessage] = TALK, open_turn: bool = True) -> str:
    template = ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"})
    return template.render(messages, now=NOW, open_turn=open_turn)


def test_chatml_is_written_as_transformers_writes_it() -> None:
    assert rendered(CHATML) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>assistant\n"
    )
    assert rendered(CHATML, TALK[1:2], open_turn=False) == (
        "<|im_start|>system\nYou are helpful<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
    )


def test_llama_2_merges_the_system_message_and_refuses_roles_that_do_not_alternate() -> None:
    assert rendered(LLAMA_2) == "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Hello </s>"
    with pytest.raises(HplmError, match="invalid_field: the chat template says: “Conversation roles must"):
        rendered(LLAMA_2, [TALK[2]])


def test_qwen_3_uses_namespaces_slices_and_methods() -> None:
    thought = ChatMessage("assistant", "<think>hm</think>\n\nHello")
    assert rendered(QWEN_3, [*TALK[:2], thought]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n1: 01 Jul 2026"
    )


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


@pytest.mark.parametrize("source", [CHATML, LLAMA_2, QWEN_3.replace("strftime_now('%d %b %Y')", "''")])
@given(talk=talks)
def test_any_talk_is_written_as_transformers_writes_it(source: str, talk: list[ChatMessage]) -> None:
    asked = [{"role": message.role, "content": message.content.replace("\0", "")} for message in talk]
    how: Any = {
        "chat_template": source,
        "add_generation_prompt": True,
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    try:
        written: Any = render_jinja_template([asked], **how)
    except TemplateError:
        with pytest.raises(HplmError):
            rendered(source, [ChatMessage(**message) for message in asked])
    else:
        assert rendered(source, [ChatMessage(**message) for message in asked]) == written[0][0]


def test_the_variables_of_tools_are_there_and_none() -> None:
    source = "{% if tools is not none or documents is not none %}tools{% endif %}{{ dict(a=1).a }}"
    assert rendered(source) == "1"


def test_the_generation_tag_is_left_out() -> None:
    assert rendered("{% generation %}{{ messages[0].content }}{% endgeneration %}!") == "Be brief.!"


def test_a_long_talk_is_rendered_by_every_template() -> None:
    talk = [ChatMessage("user" if at % 2 == 0 else "assistant", f"{at} " * 60) for at in range(1000)]
    for source in (None, CHATML, LLAMA_2, QWEN_3):
        assert "999 999" in rendered(source, talk)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_or_fails_before_it_costs_much(name: str) -> None:
    with pytest.raises(HplmError) as raised:
        rendered(HOSTILE[name])
    assert raised.value.code in {"unsupported_checkpoint", "invalid_field"}
    assert len(raised.value.message) < 300


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


def test_a_root_without_a_template_has_the_default_one_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    template = ChatTemplate.of_root(tmp_path)
    assert template.render(TALK, now=NOW) == "System: Be brief.\nUser:  Hi \nAssistant: Hello</s>\nAssistant:"
    assert template.notice is not None
    assert "no chat template" in template.notice
    assert ChatTemplate(CHATML).notice is None


@pytest.mark.parametrize("content", ["[", "[1]", '{"chat_template": 7}'])
def test_a_config_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(HplmError, match="unsupported_checkpoint"):
        ChatTemplate.of_root(tmp_path)


def test_a_template_that_is_too_long_is_refused() -> None:
    with pytest.raises(HplmError, match="at most 131,072"):
        ChatTemplate("a" * 200_000)
