"""Put the PET and head of a model on another parent without training, and compare both (HMI section 4.1)."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CASCADE_FILE, CascadeProfile
from inference.hplm.hplm import WEIGHTS_FILE, Hplm
from inference.text.outputs import HPLM_FILE
from workers.training.cascade.selection import summary
from workers.training.datasets import DatasetFiles
from workers.training.disk import atomic_folders
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.paired_test import PairedResult
from workers.training.progress import Reporter
from workers.training.version_comparison import VersionFiles, compare_versions


def rebase(
    *,
    old: VersionFiles,
    new: VersionFiles,
    dataset: DatasetFiles,
    compared: Path,
    task: str,
    out: Path,
    device: str,
    precision: str,
    reporter: Reporter,
) -> tuple[dict[str, Any], PairedResult]:
    """Write the model of `old` to `out`. A cascade that was cross-fitted it keeps, since dev alone would tell
    less; else one is fitted on dataset.dev by the states of the new parent. Return {dev, cascade, labels,
    bytes} as `fine_tune` reports them, and the comparison of both on `compared`.

    new: the root, tables and lower layers of the new parent; its model is that in `out`. compared: rows of
    dataset.dev. Raises HplmError: corrupt_artifact, malformed_row, out_of_memory, out_of_disk.
    """
    profile = out.with_name("profile")
    new = replace(new, hplm=out, cascade=None)
    kept = CascadeProfile.load(old.cascade or old.hplm)
    with atomic_folders(out):
        out.mkdir()
        for name in (HPLM_FILE, WEIGHTS_FILE):
            shutil.copyfile(old.hplm / name, out / name)
        if kept is not None and kept.cross_fitted:
            kept.save(out)
        dev = evaluate(
            root=new.root,
            plots=list(new.plots),
            hplm=out,
            dataset_file=dataset.dev,
            task=task,
            reporter=reporter,
            lower=new.lower,
            train_file=dataset.train,
            dev_file=dataset.dev,
            settings=EvaluateSettings(device=device, precision=precision, policy=AnswerPolicy.TABLE),
            scratch=out.parent,
            profile_out=profile,
        )
        if profile.is_dir():
            shutil.move(profile / CASCADE_FILE, out / CASCADE_FILE)
    result = compare_versions(
        old=old,
        new=new,
        files={"dev": compared},
        task=task,
        device=device,
        precision=precision,
        reporter=reporter,
        scratch=out.parent,
    )
    stored, served = Hplm.load(out, dtype=None), CascadeProfile.load(out)
    assert served is not None
    dev.pop("cascade", None)
    report = {"cascade": summary(served), "dev": dev, "labels": list(stored.labels), "bytes": stored.bytes}
    return report, result["dev"]
