"""Compare a new version with the one that it may replace, on rows that the new one was not trained on."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from inference.errors import HplmError
from tenants.base.errors import HmiError
from tenants.datasets.formats.examples import example_from_line
from tenants.datasets.formats.lines import fingerprint
from tenants.datasets.models import Split
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.models.version import VersionState
from versiontree.tree.promotion import AGAINST
from versiontree.tree.selectors.lineage import rebased_from
from versiontree.tree.selectors.versions import default_of
from workers.jobs.inputs import upload_file
from workers.training.paired_test import PairedResult
from workers.training.progress import Reporter

STAGE: Final = "compare"
MAX_ROWS: Final = 400
"""A split with more rows is sampled evenly down to these."""
Compare = Callable[[Version, Mapping[str, Path], Reporter], Mapping[str, PairedResult]]
"""Compares the job's version with another one on the rows of these files, by the names of their splits."""


def comparison(job: Job, workspace: Path, reporter: Reporter, compare: Compare) -> dict[str, Any]:
    """The job's metrics of a version that is being built while `default` points at another one; else none.

    The rows are those of the dev and test split of the other version, without the texts in a training split
    of the new version or of one that it was trained further from.
    """
    new = job.version
    old = default_of(new)
    if new.state == VersionState.READY or old is None:
        return {}
    reporter.start_stage(STAGE, 1)
    found: dict[str, Any] = {"version": old.number}
    try:
        _check_inputs(old, new)
        splits = _splits(old)
        learned = [upload_file(one, f"the training split of {new.name}") for one in _trained_on(new)]
        files = {}
        for split in (Split.DEV, Split.TEST):
            source = upload_file(splits[split], f"the {split} split of version {old.number}")
            out = workspace / f"compare-{split}.jsonl"
            rows, left_out = held_out(source, learned, out, reporter)
            found[split] = {"rows": rows, "left_out": left_out}
            if rows:
                files[str(split)] = out
        for name, result in (compare(old, files, SilentReporter(reporter)) if files else {}).items():
            found[name] |= result.to_json()
    except (HmiError, HplmError) as error:
        found = {"version": old.number, "problem": error.message}
    reporter.report(1)
    return {AGAINST: found}


class SilentReporter:
    """A reporter that passes on the cancellation of a job, and reports no stages and steps."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def start_stage(self, name: str, total: int) -> None:
        """No stage of its own."""

    def report(self, step: int, **metrics: float) -> None:
        """No steps of its own."""
        self.raise_if_cancelled()

    def raise_if_cancelled(self) -> None:
        """As the other one."""
        self._reporter.raise_if_cancelled()


def _check_inputs(old: Version, new: Version) -> None:
    if _dataset(old).get("pairs", False) != _dataset(new).get("pairs", False):
        message = f"Version {new.number} reads other inputs than version {old.number}."
        raise HplmError("invalid_field", message)


def _splits(version: Version) -> Mapping[str, str]:
    found: Mapping[str, str] = _dataset(version).get("splits") or {}
    if not found:
        message = f"Version {version.number} was imported, so its dev rows are not known."
        raise HplmError("not_found", message)
    return found


def _trained_on(version: Version) -> list[str]:
    """The checksums of the training splits of a version and of those that it was trained further or rebased
    from."""
    found: list[str] = []
    node: Version | None = version
    while node is not None and node.hplm_id == version.hplm_id:
        found.append(_dataset(node).get("splits", {}).get(Split.TRAIN, ""))
        node = rebased_from(node) or node.parent
    return list(dict.fromkeys(filter(None, found)))


def _dataset(version: Version) -> Mapping[str, Any]:
    found: Mapping[str, Any] = version.config.get("dataset") or {}
    return found


def held_out(source: Path, learned: Iterable[Path], out: Path, reporter: Reporter) -> tuple[int, int]:
    """Write the rows of `source` whose texts are in no `learned` file, or MAX_ROWS of them. Returns how many
    were written, and how many were left out as learned."""
    rows = [(line, _fingerprint(line)) for line in _lines(source)]
    own = {key for _, key in rows}
    known: set[int] = set()
    for file in learned:
        for number, line in enumerate(_lines(file)):
            if number % MAX_ROWS == 0:
                reporter.raise_if_cancelled()
            if (key := _fingerprint(line)) in own:
                known.add(key)
    kept = [line for line, key in rows if key not in known]
    count = min(len(kept), MAX_ROWS)
    with out.open("w", encoding="utf-8", newline="\n") as writer:
        writer.writelines(kept[index * len(kept) // count] for index in range(count))
    return count, len(rows) - len(kept)


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="\n") as lines:
        yield from (line for line in lines if line.strip())


def _fingerprint(line: str) -> int:
    return fingerprint(*example_from_line(line).texts)
