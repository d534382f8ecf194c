"""The stock `openai` client reads what is rendered for it, with its strict validation."""

import json
import subprocess
from pathlib import Path

import pytest

from inference.openai.choices import Delta, ScoredToken, TokenLogprob
from inference.openai.completions import CHAT, HEARTBEAT, TEXT, ChunkStream, Heading, Usage, response_json
from tests.peers import peer_python

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent / "peers"
HEADING = Heading("c1", 1_767_225_600, "acme/poet:3", "d" * 64)
USAGE = Usage(5, 7)
WRITTEN = ScoredToken(1, "é".encode(), -0.5)
LOGPROBS = (TokenLogprob(WRITTEN, (WRITTEN, ScoredToken(2, b"\xf0", -2.0))),)


def test_it_reads_responses_and_streams() -> None:
    deltas = [Delta(0, "é", LOGPROBS), Delta(0, "!", (), "stop")]
    chat, text = ChunkStream(CHAT, HEADING, include_usage=True), ChunkStream(TEXT, HEADING)
    told = {
        "chat": response_json(CHAT, HEADING, [deltas, [Delta(1, "", (), "length")]], USAGE),
        "text": response_json(TEXT, HEADING, [deltas], USAGE),
        "chat_stream": _stream(chat, deltas),
        "text_stream": _stream(text, deltas),
    }
    command = [str(peer_python(HERE / "openai.txt")), str(HERE / "parse_completions.py")]
    done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "chat": ["é!", ""],
        "reasons": ["stop", "length"],
        "bytes": [[0xC3, 0xA9]],
        "alternatives": [["é", "\ufffd"]],
        "total_tokens": 12,
        "text": "é!",
        "text_offset": [0],
        "chat_stream": "é!",
        "chat_usage": 12,
        "text_stream": "é!",
    }


def _stream(stream: ChunkStream, deltas: list[Delta]) -> str:
    sent = stream.opening(1) + HEARTBEAT + b"".join(map(stream.chunk, deltas)) + stream.end(USAGE)
    return sent.decode()
