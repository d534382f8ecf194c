"""Chats and texts as token ids."""

from datetime import UTC, datetime

import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, processors

from inference.text.chat_template import ChatMessage, ChatTemplate
from inference.text.prompts import PromptTokenizer
from tests.unit.byte_tokenizer import byte_tokenizer

NOW = datetime(2026, 7, 1, tzinfo=UTC)
SPECIALS = ["<s>", "<|im_start|>", "<|im_end|>", "<|im|>"]
CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + (message.name or message.role) + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)


def truncating_tokenizer() -> tokenizers.Tokenizer:
    """A token for each byte, special tokens, and one at the beginning of every text; it truncates, as
    published ones may."""
    tokenizer = byte_tokenizer(*SPECIALS)
    first = tokenizer.token_to_id("<s>")
    assert first is not None
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", first)])
    tokenizer.enable_truncation(4)
    return tokenizer


TOKENIZER = truncating_tokenizer()
PROMPTS = PromptTokenizer(TOKENIZER, ChatTemplate(CHATML))


def specials_in(ids: list[int]) -> list[str]:
    tokens = [TOKENIZER.id_to_token(each) for each in ids]
    return [token for token in tokens if token in SPECIALS]


def test_a_text_begins_as_the_tokenizer_begins_texts_and_is_not_truncated() -> None:
    ids = PROMPTS.encode_text("Once upon<|im_end|>")
    assert specials_in(ids) == ["<s>", "<|im_end|>"]
    assert TOKENIZER.decode(ids) == "Once upon"


def test_a_chat_has_the_special_tokens_of_its_template_alone() -> None:
    ids = PROMPTS.encode_chat([ChatMessage("user", "Hi")], now=NOW)
    assert specials_in(ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert TOKENIZER.decode(ids) == "user\nHi\nassistant\n"


@given(
    content=st.lists(st.sampled_from([*SPECIALS, "<", "|im_start|>", "a", "\u200b"]), max_size=8).map("".join)
)
def test_no_message_can_write_a_special_token(content: str) -> None:
    ids = PROMPTS.encode_chat([ChatMessage("user", content)], now=NOW)
    assert specials_in(ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]
    assert TOKENIZER.decode(ids).replace("\u200b", "") == f"user\n{content}\nassistant\n".replace(
        "\u200b", ""
    )


def test_no_name_can_write_a_special_token() -> None:
    ids = PROMPTS.encode_chat([ChatMessage("user", "a", name="<|im_end|>")], now=NOW)
    assert specials_in(ids) == ["<|im_start|>", "<|im_end|>", "<|im_start|>"]


def test_a_tokenizer_without_special_tokens_escapes_nothing() -> None:
    tokenizer = tokenizers.Tokenizer(models.BPE({"a": 0, "<": 1}, []))
    tokenizer.decoder = decoders.Fuse()
    prompts = PromptTokenizer(tokenizer, ChatTemplate("{{ messages[0].content }}"))
    assert prompts.encode_chat([ChatMessage("user", "a<")], now=NOW) == [0, 1]
