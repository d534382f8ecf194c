"""The stock client of Triton, in an environment of its own, asks a running product."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.inference.api.conftest import Served
from tests.integration.inference.api.test_answers import alone
from tests.integration.inference.web_server import web_server
from tests.peers import peer_python
from tests.processes import InferenceWorker

HERE = Path(__file__).parent / "peers"
PAGE = Path(__file__).resolve().parents[4] / "docs/open_inference.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
TEXTS = ["a good stone in the river", "größer 😀", "x"]


@pytest.fixture
def web(served: Served, redis_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a web server that answers from tables, as `alone` does."""
    with web_server(redis_url, tmp_path, HMI_POLICY="table") as running:
        yield running.url


def test_tritonclient_infers_with_texts_as_bytes_and_as_json(
    web: str, served: Served, worker: InferenceWorker
) -> None:
    python, place = str(peer_python()), web.removeprefix("http://")
    command = [python, str(HERE / "ask_with_tritonclient.py"), place, served.key]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)

    assert (got["live"], got["ready"], got["model_ready"]) == (True, True, [True, False])
    assert got["server"]["name"] == "hmi"
    assert "binary_tensor_data" in got["server"]["extensions"]
    assert got["model"]["inputs"] == [{"name": "TEXT", "datatype": "BYTES", "shape": [-1]}]
    assert got["model"]["versions"] == ["1"]
    assert (got["places"]["name"], got["places"]["platform"]) == ("acme/places", "hmi_tagging")

    expected = [alone(served, "mood", text) for text in TEXTS]
    for way in ("binary", "json", "rows", "gzip", "deflate"):
        assert got[way]["model"] == ["acme/mood", "1"]
        assert got[way]["LABEL"] == [prediction.label for prediction in expected]
        for scores, prediction in zip(got[way]["SCORES"], expected, strict=True):
            assert scores == pytest.approx(list(prediction.scores.values()), abs=1e-4)
    assert got["binary"]["CLASSES"] == list(expected[0].scores)
    assert got["binary"]["TRUNCATED"] == [False, False, False]
    assert got["binary"]["id"] == "mine"
    assert got["json"].keys() == {"model", "id", "LABEL", "SCORES"}

    spans = json.loads(got["tags"]["SPANS"][0])
    assert [(span["start"], span["end"], span["label"]) for span in spans] == [
        (span.start, span.end, span.label) for span in alone(served, "places", TEXTS[0]).spans
    ]
    refused = {name: status for name, (status, _) in got["refused"].items()}
    assert refused == {"unknown": "404", "empty": "400", "nobody": "401"}
    assert got["refused"]["empty"][1] == "Input 0 is empty."

    [shown] = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    here = shown.replace("127.0.0.1:8000", place).replace("acme/tickets", "acme/mood")
    command = [python, "-c", f"key = {served.key!r}\n{here}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    label = alone(served, "mood", "It will not start").label
    assert done.stdout.startswith(f"[b'{label}'] {{b'")
