"""The report of a check of uploaded files."""

from collections import Counter

import typer

from hmi_client.cli.output import print_note, print_table
from hmi_client.responses import Check, Json

MAX_LABELS_SHOWN = 20
SPLITS = ("train", "dev", "test")


def print_report(check: Check) -> None:
    """Print the splits, the labels, the warnings and the notes of files that passed their check."""
    report = check.preview.get("report", {})
    splits: dict[str, Json] = {
        name: report["splits"][name] for name in SPLITS if name in report.get("splits", {})
    }
    if not splits:
        print_table(("rows", "words"), [(report.get("rows"), report.get("words"))])
    else:
        print_table(
            ("split", "rows", "words", "words per row", "longest", "repeated"),
            [
                (
                    name,
                    split["rows"],
                    split.get("words"),
                    split.get("words_per_row", {}).get("mean"),
                    split.get("words_per_row", {}).get("max"),
                    split.get("duplicates"),
                )
                for name, split in splits.items()
            ],
        )
    if labels := sorted(_label_counts(splits).items(), key=lambda one: (-one[1], one[0])):
        typer.echo()
        print_table(("label", "rows"), labels[:MAX_LABELS_SHOWN])
        if len(labels) > MAX_LABELS_SHOWN:
            print_note(f"and {len(labels) - MAX_LABELS_SHOWN:,} more (--json lists all)")
    for warning in report.get("warnings", []):
        print_note(f"Warning: {warning}")
    for note in report.get("notes", []):
        print_note(f"Note: {note}")


def _label_counts(splits: dict[str, Json]) -> Counter[str]:
    """Label -> rows of all splits. Empty for tasks without labels."""
    total: Counter[str] = Counter()
    for split in splits.values():
        total.update(split.get("labels") or {})
    return total
