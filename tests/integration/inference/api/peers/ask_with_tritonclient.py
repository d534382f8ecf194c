"""Run by the Python of an environment that has tritonclient: asks a server, and prints what it got as JSON.

The arguments are the server's host and port, and an API key.
"""

import json
import sys
from typing import Any

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

TEXTS = ["a good stone in the river", "größer 😀", "x"]


def texts(values: list[str], *, binary: bool, shape: list[int] | None = None) -> Any:
    """A tensor of these."""
    tensor = triton.InferInput("TEXT", shape or [len(values)], "BYTES")
    array = np.array(values, dtype=np.object_).reshape(shape or [len(values)])
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def listed(answer: Any, name: str) -> Any:
    """An output as lists; texts are bytes in tensors."""
    values = answer.as_numpy(name)
    if values.dtype == np.object_:
        return [value.decode() if isinstance(value, bytes) else value for value in values.ravel()]
    return values.tolist()


def refusal(client: Any, model: str, tensor: Any, key: str | None) -> list[str]:
    """The status and the message of what must not be answered."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        client.infer(model, [tensor], headers=headers)
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return ["answered", ""]


def main(url: str, key: str) -> None:
    """Everything a client does."""
    client = triton.InferenceServerClient(url=url)

    def known() -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def ask(model: str, tensor: Any, **more: Any) -> dict[str, Any]:
        answer = client.infer(model, [tensor], headers=known(), **more)
        got = answer.get_response()
        names = [output["name"] for output in got["outputs"]]
        about = {"model": [got["model_name"], got["model_version"]], "id": got.get("id")}
        return {**about, **{name: listed(answer, name) for name in names}}

    wanted = [triton.InferRequestedOutput(name, binary_data=False) for name in ("LABEL", "SCORES")]
    got = {
        "live": client.is_server_live(),
        "ready": client.is_server_ready(),
        "server": client.get_server_metadata(headers=known()),
        "model_ready": [client.is_model_ready(name, headers=known()) for name in ("acme/mood", "absent")],
        "model": client.get_model_metadata("acme/mood", headers=known()),
        "places": client.get_model_metadata("places", "1", headers=known()),
        "binary": ask("acme/mood", texts(TEXTS, binary=True), request_id="mine", timeout=20_000_000),
        "json": ask("mood@default", texts(TEXTS, binary=False), outputs=wanted),
        "rows": ask("mood", texts(TEXTS, binary=True, shape=[3, 1]), model_version="1"),
        "tags": ask("acme/places", texts(TEXTS, binary=True)),
    }
    for way in ("gzip", "deflate"):
        got[way] = ask(
            "mood",
            texts(TEXTS, binary=True),
            request_compression_algorithm=way,
            response_compression_algorithm=way,
        )
    got["refused"] = {
        "unknown": refusal(client, "unheard-of", texts(TEXTS, binary=True), key),
        "empty": refusal(client, "mood", texts([" "], binary=True), key),
        "nobody": refusal(client, "mood", texts(TEXTS, binary=True), None),
    }
    sys.stdout.write(json.dumps(got))


if __name__ == "__main__":
    main(*sys.argv[1:])
