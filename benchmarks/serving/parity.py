"""What the engine answers beside the reference in fp32, which computes the same weights text by text.

python -m benchmarks.serving.parity
"""

import argparse
import copy
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.world import World
from inference.engine.pipeline import Pipeline
from inference.engine.rows import Answered
from inference.hplm.hplm import Hplm
from tests.reference_hplm import reference_outputs

MODELS: Final = 16
POOL_BYTES: Final = 1 << 30
ALLOWED: Final[dict[torch.dtype, float]] = {torch.float32: 0.001, torch.float16: 0.03, torch.bfloat16: 0.2}
"""The worst difference, in standard deviations of the logits, by number format."""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, and print the table."""
    return shared.run(shared.arguments(__doc__ or ""), measure, argv)


def measure(_: argparse.Namespace, world: World) -> harness.Report:
    """A batch with a row of each of some models; a difference beyond what is allowed is a failure."""
    world.store_hplms(MODELS)
    pipeline = Pipeline()
    executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
    outcomes = executor.step(world.rows(np.arange(MODELS, dtype=np.int64)))
    pipeline.close()
    answered = [outcome for outcome in outcomes if isinstance(outcome, Answered)]
    upper = copy.deepcopy(world.root.upper).to("cpu", torch.float32)
    reference = replace(world.root, upper=upper)
    expected = [
        reference_outputs(
            reference,
            world.lower_layers(0).tables,
            Hplm.load(world.hplm_folder(int(one.row.model.hplm))),
            one.row.ids,
        )
        for one in answered
    ]
    differences = [
        float(np.abs(one.logits - right).max()) for one, right in zip(answered, expected, strict=True)
    ]
    worst = max(differences, default=np.inf) / float(np.std(expected))
    allowed = ALLOWED[world.dtype]
    rows: list[harness.Row] = [
        {"models": MODELS, "answered": len(answered), "worst difference": worst, "allowed": allowed}
    ]
    failures = []
    if len(answered) < MODELS:
        failures.append(f"parity: {MODELS - len(answered)} rows have no answer")
    if not worst <= allowed:
        failures.append(f"parity: a logit is {worst:.3f} standard deviations off, {allowed} are allowed")
    return harness.Report("parity", {}, rows, {"worst_difference": worst}, failures)


if __name__ == "__main__":
    sys.exit(main())
