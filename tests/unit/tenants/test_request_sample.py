"""Which requests stay in the log when more come in than it takes."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from tenants.usage.services.request_log import (
    MAX_TEXT_CHARACTERS,
    RequestEntry,
    RequestSample,
    kept_text,
    message_without_values,
    shown_name,
)

NOON = datetime(2026, 1, 31, 12, 59, 59, tzinfo=UTC)
HOUR = datetime(2026, 1, 31, 12, tzinfo=UTC)


def fill(sample: RequestSample, tenants: str, *, limit: int, code: str = "") -> None:
    """One request of each of the tenants, in turn, which are letters."""
    for tenant in tenants:
        entry = RequestEntry(
            ord(tenant), f"{tenant}-{code}", "infer", 429 if code else 200, error_code=code, at=NOON
        )
        sample.add(entry, limit)


def kept(sample: RequestSample) -> Counter[str]:
    """How many are kept by tenant and error code."""
    return Counter(entry.request_id for entry in sample.entries)


def omitted(sample: RequestSample) -> dict[str, list[int]]:
    assert {hour for _, hour in sample.omitted} <= {HOUR}
    return {chr(tenant): counts for (tenant, _), counts in sample.omitted.items()}


def test_all_are_kept_within_the_limit() -> None:
    sample = RequestSample()
    assert not sample
    fill(sample, "aab", limit=3)
    assert (kept(sample), omitted(sample), bool(sample)) == (Counter({"a-": 2, "b-": 1}), {}, True)


def test_failures_displace_answered_requests_and_the_others_are_counted() -> None:
    sample = RequestSample()
    fill(sample, "aaaaaa", limit=4)
    fill(sample, "aaa", limit=4, code="rate_limited")
    assert kept(sample) == {"a-": 1, "a-rate_limited": 3}
    assert omitted(sample) == {"a": [5, 0, 0]}
    fill(sample, "aaa", limit=4, code="rate_limited")
    fill(sample, "a", limit=4)
    assert kept(sample) == {"a-rate_limited": 4}
    assert omitted(sample) == {"a": [9, 2, 0]}


@pytest.mark.parametrize("code", ["", "rate_limited", "internal"])
def test_a_tenant_that_floods_the_log_displaces_no_other(code: str) -> None:
    sample = RequestSample()
    fill(sample, "b" + "a" * 50 + "bcc" + "a" * 50, limit=6, code=code)
    assert kept(sample) == {f"a-{code}": 2, f"b-{code}": 2, f"c-{code}": 2}
    assert omitted(sample) == {"a": [98, 98 * (code == "rate_limited"), 98 * (code == "internal")]}


def test_more_tenants_than_the_limit_are_kept_in_the_order_of_their_first_requests() -> None:
    sample = RequestSample()
    fill(sample, "abcdef", limit=4)
    fill(sample, "a", limit=4, code="not_found")
    assert kept(sample) == {"a-not_found": 1, "b-": 1, "c-": 1, "d-": 1}
    assert omitted(sample) == {"e": [1, 0, 0], "f": [1, 0, 0], "a": [1, 0, 0]}


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
def test_the_log_of_requests_masks_what_the_logs_of_processes_mask(message: str, shown: str) -> None:
    assert message_without_values(message) == shown


def test_a_field_whose_name_looks_like_a_key_is_not_shown_but_one_of_settings_is() -> None:
    assert shown_name(KEY, 200) == ""
    assert shown_name("settings.learning_rate_warmup_steps", 200) == "settings.learning_rate_warmup_steps"
