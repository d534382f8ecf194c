"""What the benchmark of attacks finds of a deleted tenant, and which figures miss their aim."""

import gzip
import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.product.hostile.figures import Attacked, Deleted, figures, missed, together
from benchmarks.product.hostile.traces import Marker, Walk
from tests.unit.tiny_decoder import byte_tokenizer

WORD, OTHER = "qzvkxwjfpbhgmdtc", "wvxqkzjhbgpfmcdt"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "valkey").mkdir()
    return tmp_path


def walk(home: Path, since: float = 0.0) -> Walk:
    return Walk([home], Marker([WORD, OTHER]).patterns([byte_tokenizer()]), since=since)


def test_words_are_found_in_texts_names_and_compressed_files(home: Path) -> None:
    (home / "a.log").write_text(f"before {WORD} behind")
    (home / f"{OTHER}.json").write_text("{}")
    (home / "b.gz").write_bytes(gzip.compress(WORD.encode()))
    with zipfile.ZipFile(home / "c.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("member", f"{WORD} " * 100)
    (home / "d.log").write_text("nothing")
    assert set(walk(home).traces()) == {"a.log", f"{OTHER}.json", "b.gz", "c.zip"}


@pytest.mark.parametrize("kind", ["<u2", "<i4", "<i8"])
def test_words_are_found_as_token_ids(home: Path, kind: str) -> None:
    ids = byte_tokenizer().encode(f"a text of {WORD} and more").ids
    (home / "valkey" / "appendonly.aof").write_bytes(b"XADD" + np.array(ids, kind).tobytes())
    assert walk(home).traces()["valkey/appendonly.aof"] > 0


def test_the_database_and_what_was_written_before_are_left_out(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "1").write_text(WORD)
    (home / "old").write_text(WORD)
    os.utime(home / "old", (1000, 1000))
    assert not walk(home, since=2000.0).traces()


def test_a_file_that_changes_is_read_again(home: Path) -> None:
    file = home / "valkey" / "appendonly.aof"
    file.write_text(WORD)
    looked = walk(home)
    assert looked.traces()
    file.write_text("rewritten")
    assert not looked.traces()


def attacked(**changes: object) -> Attacked:
    about = {"name": "one", "seconds": [1.0], "beside": [1.0], "failures": [], "cores": 1.0, "restarts": 0}
    return Attacked(**{**about, "memory": Counter(), **changes})  # type: ignore[arg-type]


def test_every_round_counts_and_times_are_the_longest() -> None:
    rounds = [
        attacked(pause_s=0.1, counted={"answered 500": 1, "ended after ms": 900}),
        attacked(pause_s=2.5, counted={"answered 500": 2, "ended after ms": 12_000}),
    ]
    deletion = Deleted(1.0, 60.0, Counter({"valkey/appendonly.aof": 16}), Counter())
    found = figures([together(rounds)], [], deletion, memory_before=Counter(), disk_growth=0)
    names = ("longest_pause_s", "internal_errors", "revoked_stream_s", "left_behind")
    assert [found[name] for name in names] == [2.5, 3, 12.0, 16]
    assert [told.split()[0] for told in missed(found)] == list(names)
