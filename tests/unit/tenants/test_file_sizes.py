"""Sizes of files, as pages show them."""

import pytest
from django.template import engines

from tenants.base.file_sizes import file_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (702_732, "702.7 KB"),
        (999_999, "1 MB"),
        (5_000_000_000, "5 GB"),
        (1_234_500_000_000_000, "1,234.5 TB"),
    ],
)
def test_sizes_are_powers_of_ten(size: int | None, text: str) -> None:
    assert file_size(size).replace("\N{NO-BREAK SPACE}", " ") == text


def test_templates_show_the_same_sizes() -> None:
    shown = engines["django"].from_string("{{ size|filesizeformat }}").render({"size": 1_500_000})
    assert shown == "1.5\N{NO-BREAK SPACE}MB"
