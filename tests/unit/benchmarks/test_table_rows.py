"""The held-out error by the rows of a domain's table."""

import json
from pathlib import Path

from benchmarks.accuracy import table_rows
from tests.unit.tiny import tiny_lower, tiny_plot, tiny_root, tiny_texts
from tests.unit.workers.training.world import corpus_file, repeating_texts


def test_more_rows_find_more_fragments_whole_and_the_report_has_every_choice(tmp_path: Path) -> None:
    root = tiny_root(tmp_path / "checkpoint")
    root.save(tmp_path / "root")
    lower = tiny_lower(root)
    lower.save(tmp_path / "lower")
    tiny_plot(tmp_path / "table", root, lower, tiny_texts(5))
    corpus_file(tmp_path / "corpus.txt", repeating_texts(200))
    paths = [f"--{name}={tmp_path / name}" for name in ("root", "lower", "table")]
    report = tmp_path / "report.json"
    assert (
        table_rows.main([*paths, f"--corpus={tmp_path / 'corpus.txt'}", "--quick", f"--json={report}"]) == 0
    )
    found = json.loads(report.read_text())["rows"]
    assert len(found) == 2 + len(table_rows.ALPHAS) + len(table_rows.MEGABYTES)
    whole = {row["rows by"]: row["whole %"] for row in found}
    assert whole["uni-grams alone"] < whole["root's table"] < whole["α = 50 %"] < whole["α = 100 %"]
    assert all(
        row["MB"] <= megabytes for row, megabytes in zip(found[-4:], table_rows.MEGABYTES, strict=True)
    )
    assert all(row["cut"] > 0 and row["last"] > 0 for row in found)
