"""Uploads for the tests, and a look at what they left on disk."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from tenants.errors import ErrorCode, HmiError
from tenants.models import Corpus, Dataset, DatasetSplit

CORPUS = "".join(f"line number {number} of the corpus\n" for number in range(50))


def rows(count: int, *, start: int = 0) -> str:
    """JSON lines of classification with two labels."""
    return "".join(
        json.dumps({"text": f"text number {number}", "label": "good" if number % 2 else "bad"}) + "\n"
        for number in range(start, start + count)
    )


def stream(content: str | bytes) -> io.BytesIO:
    """The content as an open file."""
    return io.BytesIO(content.encode() if isinstance(content, str) else content)


def upload(name: str, content: str | bytes) -> Any:
    """The content as a file of a form."""
    return SimpleUploadedFile(name, content.encode() if isinstance(content, str) else content)


def stored(root: Path) -> set[str]:
    """Every file under the upload root, workspaces too."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def nothing_is_left(root: Path) -> bool:
    """Neither rows nor files of any upload."""
    models = (Corpus, Dataset, DatasetSplit)
    return not stored(root) and not any(model.unscoped.exists() for model in models)


def refused(code: ErrorCode, act: Callable[[], object]) -> HmiError:
    """The error with which the act fails, which must have this code."""
    with pytest.raises(HmiError) as caught:
        act()
    assert caught.value.code == code, f"{caught.value.code}: {caught.value.message}"
    return caught.value
