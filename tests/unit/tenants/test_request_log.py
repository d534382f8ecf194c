"""What the request log keeps of texts, messages and names."""

from datetime import UTC, datetime

import pytest

from tenants.usage.services.request_log import (
    MAX_TEXT_CHARACTERS,
    RequestEntry,
    RequestLogBuffer,
    kept_text,
    message_without_values,
    shown_name,
)


def test_a_kept_text_is_a_beginning_that_the_database_can_hold() -> None:
    assert kept_text("x" * 600) == "x" * MAX_TEXT_CHARACTERS
    assert kept_text("a\0b\ud800c") == "a\N{REPLACEMENT CHARACTER}b?c"


KEY = "Ab3dEf7h." + "s3cret" * 5 + "s3"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"The key {KEY} is over.", "The key … is over."),
        ("Nobody has whsec_c2VjcmV0c2VjcmV0 here.", "Nobody has … here."),
        ("Nothing at redis://user:word@host:1.", "Nothing at redis://…@host:1."),
        ("settings.learning_rate_warmup_steps is too large.",) * 2,
    ],
)
def test_a_message_is_kept_without_secrets(message: str, shown: str) -> None:
    assert message_without_values(message) == shown


def test_a_field_is_shown_unless_its_name_looks_like_a_key() -> None:
    assert shown_name(KEY, 200) == ""
    assert shown_name("settings.learning_rate_warmup_steps", 200) == "settings.learning_rate_warmup_steps"


def test_a_buffer_that_takes_back_another_keeps_its_entries_and_its_counts_by_hour() -> None:
    unwritten, buffer = RequestLogBuffer(), RequestLogBuffer()
    noon = datetime(2026, 1, 31, 12, 59, 59, tzinfo=UTC)
    for code in ("", "rate_limited", "internal", "internal"):
        unwritten.add(RequestEntry(1, f"r-{code}", "infer", 200, error_code=code, at=noon), limit=1)
    buffer.add_all(unwritten, limit=1)
    assert [entry.request_id for entry in buffer.entries] == ["r-"]
    assert buffer.omitted == {(1, datetime(2026, 1, 31, 12, tzinfo=UTC)): [3, 1, 2]}
