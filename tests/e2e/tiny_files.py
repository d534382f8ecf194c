"""Artifacts of a tiny random model, so that an inference worker answers for the world of the pages."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from zlib import crc32

from inference.cascade.dispatcher import OutputKind
from inference.cascade.profile import Bin, Candidate, CascadeProfile, LevelCost, LevelCosts, LevelProfile
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from inference.text.tasks import OUTPUT_KINDS, TAGGING
from tests.e2e.world import nothing_of_use
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
            model = self._hplm(job)
            model.save(folder)
            cascade_of(OUTPUT_KINDS[model.task]).save(folder)

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


def cascade_of(kind: OutputKind) -> CascadeProfile:
    """A cascade as fine-tuning leaves it, for outputs of this kind."""
    sure = () if kind == "number" else BINS
    error = None if kind == "number" else 0.024
    before = None if kind == "number" else 0.071
    return CascadeProfile(
        kind,
        LevelProfile(0.861, 4.2, 1.4, error, before, sure, tuple(map(_too_sure, sure)), standard_error=0.012),
        LevelProfile(0.884, 8.4, 1.2, error, before, sure, tuple(map(_too_sure, sure))),
        candidates=(
            Candidate(0.35, 10.0, 0.6, 0.869, 0.08, 4.9, standard_error=0.01),
            Candidate(0.5, 10.0, 0.7, 0.878, 0.17, 5.6, standard_error=0.008),
            Candidate(0.7, 10.0, 0.7, 0.883, 0.24, 6.2, standard_error=0.005),
            Candidate(0.9, 10.0, 0.8, 0.885, 0.52, 8.6, standard_error=0.005),
        ),
        chosen=2,
        rows=240,
        costs=LevelCosts(LevelCost(0.2, 0.1), LevelCost(0.4, 0.2)),
    )


def with_cascade(role: str, job: Job, folder: Path) -> None:
    """Write files that no model could be read from, and beside those of a model a cascade."""
    nothing_of_use(role, job, folder)
    if role == "hplm":
        cascade_of("classes").save(folder)


BINS = tuple(
    Bin(48, confidence, right)
    for confidence, right in ((0.46, 0.44), (0.61, 0.65), (0.76, 0.73), (0.88, 0.9), (0.97, 0.98))
)
"""A reliability diagram near the diagonal."""


def _too_sure(one: Bin) -> Bin:
    """The same rows before calibration."""
    return replace(one, confidence=one.confidence + 0.6 * (1 - one.confidence) * one.confidence)


def _seed(job: Job) -> int:
    """Of the name, not of the key: what a model answers must not hang on the tests that ran before."""
    return crc32(str(job.version).encode())


def _finding(head: Head) -> Head:
    """A tagger's head that takes every word for a part of some span."""
    bias = head.bias.clone()
    bias[0] -= 1000
    return replace(head, bias=bias)
