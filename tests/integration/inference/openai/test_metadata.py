"""What clients note on the things that they make."""

from typing import Any

import pytest

from tests.integration.inference.openai.conftest import Caller

FILE = "file-" + "0" * 32
ASKED: dict[str, dict[str, Any]] = {
    "fine_tuning/jobs": {"model": "bert", "training_file": FILE},
    "batches": {"input_file_id": FILE, "endpoint": "/v1/embeddings", "completion_window": "24h"},
}
MOST = {f"{number:064}": "x" * 512 for number in range(16)}


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("metadata", "param"),
    [
        (MOST, None),
        ({"": "", "a\nb": "a\nb", "größer 😀": ""}, None),
        (MOST | {"one more": ""}, "metadata"),
        ({"x" * 65: ""}, "metadata"),
        ({"a": "x" * 513}, "metadata.a"),
    ],
)
def test_as_much_as_the_conventions_allow_is_taken_everywhere(
    client: Caller, path: str, metadata: object, param: str | None
) -> None:
    refused = client.asks(path, **ASKED[path], metadata=metadata)
    told = refused.json()["error"]["param"]
    if param is None:  # then it is the model or the file, which is not there
        assert (refused.status_code, told in ASKED[path]) == (404, True)
    else:
        assert (refused.status_code, told) == (400, param)
