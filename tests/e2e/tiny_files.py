"""Artifacts of a tiny random model, so that an inference worker answers for the world of the pages."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from zlib import crc32

from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from inference.text.tasks import TAGGING
from tests.unit.tiny import tiny_hplm, tiny_lower, tiny_plot, tiny_root, tiny_texts
from versiontree.jobs.models import Job


class TinyFiles:
    """Fills the folders of artifacts with real files; one root for all."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    @cached_property
    def root(self) -> Root:
        """The root, split from a random checkpoint."""
        return tiny_root(self._scratch)

    @cached_property
    def lower(self) -> LocalLower:
        """Its local lower layers."""
        return tiny_lower(self.root)

    def __call__(self, role: str, job: Job, folder: Path) -> None:
        """Write what a job makes in this role."""
        if role == "root":
            self.root.save(folder)
        elif role == "lower":
            self.lower.save(folder)
        elif role == "plot":
            tiny_plot(folder, self.root, self.lower, tiny_texts(60), seed=_seed(job))
        else:
            self._hplm(job).save(folder)

    def _hplm(self, job: Job) -> Hplm:
        """A random model with the labels of the version's dataset."""
        labels: list[str] = job.version.config["labels"]
        dataset = job.version.config["dataset"]
        made = tiny_hplm(
            self.root,
            dataset["task"],
            labels=len(labels),
            pairs=bool(dataset.get("pairs")),
            seed=_seed(job),
        )
        tagging = made.task == TAGGING
        names = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")] if tagging else labels
        return replace(made, labels=tuple(names), head=_finding(made.head) if tagging else made.head)


def _seed(job: Job) -> int:
    """Of the name, not of the key: what a model answers must not hang on the tests that ran before."""
    return crc32(str(job.version).encode())


def _finding(head: Head) -> Head:
    """A tagger's head that takes every word for a part of some span."""
    bias = head.bias.clone()
    bias[0] -= 1000
    return replace(head, bias=bias)
