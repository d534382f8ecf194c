"""`hmi data`: rows of a dataset, and what is guessed and reported about files, against a running site."""

import json
from pathlib import Path

from tests.integration.hmi_client.conftest import Hmi

ROWS = "\n".join(
    f'"{word} number {at}, of many",{label}'
    for at in range(40)
    for word, label in (("delight", "glad"), ("dread", "calm"))
)


def pushed(hmi: Hmi, folder: Path, *options: str) -> int:
    file = folder / "moods2.csv"
    file.write_text(f"Message,category\n{ROWS}\n")
    ran = hmi("data", "push", file, "--task", "classification", "--json", *options)
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    assert made["columns"] == {"text": "Message", "label": "category"}, "guessed by their names"
    return int(made["dataset"] or 0)


def test_a_check_guesses_columns_and_prints_a_report(logged_in: Hmi, tmp_path: Path) -> None:
    assert pushed(logged_in, tmp_path, "--check-only") == 0
    file = tmp_path / "moods2.csv"
    checked = logged_in("data", "push", file, "--task", "classification", "--check-only")
    assert [line.split()[:2] for line in checked.out.splitlines() if line][1:] == [
        ["train", "64"],
        ["dev", "8"],
        ["test", "8"],
        ["label", "rows"],
        ["calm", "40"],
        ["glad", "40"],
    ]
    assert "Columns: text=Message, label=category" in checked.err
    assert "10%" in checked.err
    assert "The check passed. Nothing was stored." in checked.err


def test_rows_are_shown_edited_and_downloaded(logged_in: Hmi, tmp_path: Path) -> None:
    made = pushed(logged_in, tmp_path)
    shown = json.loads(logged_in("data", "show", made, "--label", "calm", "--limit", 100, "--json").out)
    assert {row["fields"]["label"] for row in shown["rows"]} == {"calm"}
    first, second = (row["row"] for row in shown["rows"][:2])
    table = logged_in("data", "show", made, "--search", "dread number", "--limit", 2)
    assert [line.split()[0] for line in table.out.splitlines()] == ["row", str(first), str(second)]
    added = '{"text": "a new row", "label": "glad"}'
    changes = ("--set", f"{first}:label=glad", "--remove", second, "--add", added)
    edited = logged_in("data", "edit", made, *changes, "--json")
    assert edited.code == 0, edited.err
    new = json.loads(edited.out)
    assert new["name"] == "moods2-2"
    assert [new["report"]["edited"][one] for one in ("changed", "removed", "added")] == [1, 1, 1]
    out = tmp_path / "train.csv"
    assert logged_in("data", "download", new["id"], "--split", "train", "-o", out).code == 0
    header, *rows = out.read_text(encoding="utf-8-sig").splitlines()
    assert (header, len(rows), rows[-1]) == ("text,label", 64, "a new row,glad")
    again = logged_in("data", "push", out, "--task", "classification", "--check-only", "--json")
    assert again.code == 0, again.err


def test_a_change_that_does_not_fit_is_refused_with_the_row(logged_in: Hmi, tmp_path: Path) -> None:
    made = pushed(logged_in, tmp_path)
    refused = logged_in("data", "edit", made, "--set", "9000:label=glad")
    assert refused.code == 1
    assert "train has no row 9000" in refused.err
    assert "hmi data show" in refused.err
    assert logged_in("data", "edit", made).code == 2
