"""Models as tenants have them: a real root, fine-tuned on a public dataset, with a fitted profile."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from benchmarks.accuracy.data import DATASETS, texts_of
from benchmarks.accuracy.methods import HBERT
from benchmarks.accuracy.trained_branches import checkpoint_folder
from benchmarks.accuracy.trainings import Training
from benchmarks.accuracy.workbench import Workbench
from benchmarks.serving.real_texts import RealTexts
from inference.cascade.profile import CASCADE_FILE
from inference.hplm.hplm import Hplm
from inference.hplm.pets.weights import PetWeights

DATASET: Final = DATASETS["sci-cite"]
ROWS, QUICK_ROWS = 1_000, 100
EPOCHS, QUICK_EPOCHS = 5, 1
TOKENS, QUICK_TOKENS = 110_000, 4_000
"""That the conversion learns from: as many as the demo's."""
QUICK_LINES: Final = 2_000
"""Of the corpus, for its table."""
NOISE: Final = 1e-3
"""By which the weights of two tenants differ, as a share of each weight."""


class TrainedModels:
    """The demo's root, and the product's default fine-tuning of it on DATASET. Each tenant has a copy whose
    weights differ a little, with the profile of the original. What was trained before is read from
    HMI_BENCH_DIR. Raises SystemExit without the dataset (HMI_DATA_DIR)."""

    name = "demo"

    def __init__(self, *, quick: bool) -> None:
        bench = Workbench(
            Console(stderr=True),
            tokens=QUICK_TOKENS if quick else TOKENS,
            rows=QUICK_ROWS if quick else ROWS,
            lines=QUICK_LINES if quick else None,
            quick=True,  # these are no results to keep
        )
        training = Training(HBERT, DATASET, HBERT.settings(0, QUICK_EPOCHS if quick else EPOCHS))
        self._model, inputs = bench.model(training), bench.inputs(training)
        self.root, self.lower = inputs.root, inputs.lower
        [self.plot] = inputs.plots
        self.checkpoint = Path(checkpoint_folder())
        self.labels = Hplm.load(self._model).labels

    def write(self, folder: Path, *, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        hplm = Hplm.load(self._model)
        weights = {
            name: value * (1 + NOISE * torch.randn(value.shape, generator=generator))
            for name, value in hplm.pet.weights.items()
        }
        replace(hplm, pet=PetWeights(hplm.pet.spec, hplm.pet.shape, weights)).save(folder)
        shutil.copy(self._model / CASCADE_FILE, folder / CASCADE_FILE)


def dataset_texts() -> RealTexts:
    """The texts of DATASET's test file to ask, and of its training file to build from."""
    known, asked = (list(dict.fromkeys(texts_of(DATASET, split))) for split in ("train", "test"))
    return RealTexts(known, asked, f"test file of {DATASET.name}")
