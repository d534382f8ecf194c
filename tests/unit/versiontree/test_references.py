"""How models are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode, HmiError
from versiontree.names import require_slug
from versiontree.tree.resolution import ModelReference, parse_reference

slugs = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("spam", ModelReference(None, "spam", "default", None)),
        ("acme/spam", ModelReference("acme", "spam", "default", None)),
        ("acme/spam@production", ModelReference("acme", "spam", "production", None)),
        ("acme/spam:12", ModelReference("acme", "spam", "default", 12)),
        ("spam:1", ModelReference(None, "spam", "default", 1)),
    ],
)
def test_a_reference_is_taken_apart(text: str, parsed: ModelReference) -> None:
    assert parse_reference(text) == parsed


@given(tenant=slugs, hplm=slugs, alias=slugs, number=st.integers(1, 999_999_999))
def test_composed_reference_is_parsed_to_its_parts(tenant: str, hplm: str, alias: str, number: int) -> None:
    assert parse_reference(f"{tenant}/{hplm}@{alias}") == ModelReference(tenant, hplm, alias, None)
    assert parse_reference(f"{tenant}/{hplm}:{number}").number == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acme/",
        "a/b/c",
        "spam@",
        "spam:0",
        "spam:01",
        "spam@a:1",
        "Spam",
        "spam\n",
        "spam:9999999999",
        "späm",
        "spam:١",
        "x" * 64,
    ],
)
def test_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(HmiError) as caught:
        parse_reference(text)
    assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_FIELD, "model")


@given(st.text(max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parsed = parse_reference(text)
    except HmiError as error:
        assert error.code == ErrorCode.INVALID_FIELD  # noqa: PT017 - either end is fine
    else:
        assert require_slug(parsed.hplm) in text


@pytest.mark.parametrize("value", [None, 3, ["spam"], {"name": "spam"}])
def test_only_text_is_a_reference_or_a_name(value: object) -> None:
    for check in (parse_reference, require_slug):
        with pytest.raises(HmiError):
            check(value)  # type: ignore[arg-type]
