"""What the benchmark of a first run reads, and how it counts."""

import json
import shlex
from pathlib import Path

import pytest
import tokenizers

from benchmarks.accuracy.trained_branches import checkpoint_folder
from benchmarks.product.first_run import (
    TOKENS,
    Welcome,
    is_answered,
    labelled_rows,
    main,
    report_of,
)
from benchmarks.product.hostile.product import DEMO_ENDED

OUTPUT = """\
  ✓ Web: ready in 6.4 s

HMI is running at http://127.0.0.1:8471 (admin: http://127.0.0.1:8471/admin/, API: http://127.0.0.1:8471/api/docs/)
Logins
 sign in as   password
 acme         abc
API key: abcd1234.secret

curl -s http://127.0.0.1:8471/api/v1/infer -H 'Authorization: Bearer abcd' -d '{"inputs": ["It'"'"'s"]}'

Ctrl-C stops everything.
"""


def row(figure: str, seconds: float) -> dict[str, object]:
    return {"figure": figure, "measured s": seconds, "processor s": 1.0}


def test_address_key_and_curl_line_are_read_as_soon_as_all_of_them_are_printed() -> None:
    welcome = Welcome.read(OUTPUT)
    assert welcome is not None
    assert (welcome.url, welcome.api_key) == ("http://127.0.0.1:8471", "abcd1234.secret")
    assert shlex.split(welcome.curl)[-1] == '{"inputs": ["It\'s"]}'
    assert Welcome.read(OUTPUT[: OUTPUT.index("curl")]) is None


@pytest.mark.parametrize(
    ("line", "failed"),
    [("  ✓ The demo is complete.", False), ("The demo is not complete.", True)],
)
def test_the_end_of_the_demo_is_read(line: str, failed: bool) -> None:
    assert DEMO_ENDED.search(OUTPUT) is None
    found = DEMO_ENDED.search(OUTPUT + line)
    assert found is not None
    assert bool(found[1]) == failed


@pytest.mark.parametrize(
    ("body", "answered"),
    [('{"results": [{}]}', True), ('{"error": {}}', False), ("", False)],
)
def test_the_line_is_answered_once_a_model_gives_results(body: str, answered: bool) -> None:
    assert is_answered(f"printf %s {shlex.quote(body)}") == answered


def test_without_bfloat16_the_times_of_computing_are_halved() -> None:
    rows = [row("address_s", 18.0), row("first_answer_s", 100.0)]
    whole = report_of(rows, [], {"halved": False}, [])
    halved = report_of(rows, [2.0, 4.0], {"halved": True}, [])
    assert whole.figures == {"address_s": 18.0, "first_answer_s": 100.0}
    assert halved.figures == {"address_s": 18.0, "first_answer_s": 50.0, "quick_gap_points": 3.0}
    assert [(one["value"], one["measured s"], one["aim"]) for one in halved.rows] == [
        (18.0, 18.0, "≤ 20"),
        (50.0, 100.0, "≤ 90"),
    ]


def test_texts_have_sixty_tokens_each() -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(checkpoint_folder()) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows = list(labelled_rows(40))
    assert len({one["text"] for one in rows}) == 40
    assert {one["label"] for one in rows} == {"first", "second", "third", "fourth"}
    lengths = [len(tokenizer.encode(one["text"]).ids) for one in rows]
    assert max(abs(length - TOKENS) for length in lengths) <= 2


@pytest.mark.thorough
def test_a_small_first_run_gives_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["--demo-scale", "0.02", "--rows", "200", "--json", "found.json"]) == 0
    figures = json.loads((tmp_path / "found.json").read_text())["figures"]
    assert set(figures) == {
        *("address_s", "first_answer_s", "demo_s"),
        *("quick_version_s", "trained_version_s", "quick_gap_points"),
    }
