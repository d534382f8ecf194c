"""The stock `openai` client with generative models, a real worker, and workers of jobs and batches."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.inference.generation.conftest import Served
from tests.integration.inference.openai.test_openai_peer import HERE, run
from tests.integration.inference.web_server import WebServer
from tests.processes import CeleryWorker
from tests.services import environment_of_services
from tests.unit.tenants.files import jsonl

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("real_worker", "jobs"),
]


@pytest.fixture
def jobs(served: Served, redis_url: str, tmp_path: Path) -> Iterator[CeleryWorker]:
    """What makes models, answers batches and reads files."""
    worker = CeleryWorker(environment_of_services(redis_url), tmp_path, queue="training,long")
    yield worker
    worker.end()


def test_it_chats_completes_runs_a_batch_and_makes_a_model_for_chat(
    server: WebServer, served: Served, tmp_path: Path
) -> None:
    conversations = [
        {
            "messages": [
                {"role": "user", "content": f"{number}?"},
                {"role": "assistant", "content": "yes"},
            ]
        }
        for number in range(60)
    ]
    rows = tmp_path / "conversations.jsonl"
    rows.write_text(jsonl(conversations))
    key = served.full_key
    program = str(HERE / "generate_with_openai.py")
    got = json.loads(run(tmp_path, key, program, server.url, key, str(rows)))
    assert {"acme/writer", "acme/mood", "smol"} <= set(got.pop("models"))
    assert got == {
        "model": "acme/writer",
        "choices": [0, 1],
        "seeded": True,
        "alternatives": [2],
        "chat_usage": True,
        "chat_stream": True,
        "tokens": True,
        "text_stream": True,
        "stop": True,
        "refused": {
            "tools": ["BadRequestError", 400, "unsupported_parameter", "tools"],
            "format": ["BadRequestError", 400, "unsupported_parameter", "response_format"],
            "encoder": ["BadRequestError", 400, "invalid_field", "model"],
        },
        "batch": ["completed", [1, 1]],
        "answer": True,
        "error": "unsupported_parameter",
        "job": ["succeeded", "acme/talker:1", None],
        "tuned": "acme/talker:1",
    }
