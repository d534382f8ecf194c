"""A peer's process: what it answers, refuses, and ends with."""

from pathlib import Path

import pytest

from benchmarks.serving.peers.environment import PeerFailed
from benchmarks.serving.peers.process import PeerProcess

SCRIPT = """#!/bin/sh
read line; echo "$line"
read line; echo '{"error": "33 tokens"}'
read line; echo "$line"
read line; echo out of memory >&2; kill -9 $$
"""


def test_peer_answers_each_request_in_turn_and_its_end_is_an_error(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(SCRIPT)
    python.chmod(0o755)
    peer = PeerProcess(python, "program", "{}", threads=1, patience_s=60.0)
    for number, refusal in enumerate((None, "33 tokens", None, "ended with -9: out of memory")):
        peer.send({"number": number})
        if refusal is None:
            assert peer.receive() == {"number": number}
            continue
        with pytest.raises(PeerFailed, match=refusal):
            peer.receive()
    peer.end()
