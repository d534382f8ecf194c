"""Fits what stands in for a decoder's lower layers: a table's rows in closed form, then the causal mixer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchmarks.accuracy.hgpt.fragments import LONGEST, Ids, complete, hit_levels
from benchmarks.accuracy.hgpt.mixer import CausalMixer
from benchmarks.accuracy.hgpt.states import LOOKUPS, States, packed
from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from workers.training.checkpoints import seeded_rng
from workers.training.ridge_regression import NormalEquations

PENALTY: Final = 10.0
ROWS: Final = 4096
LEARNING_RATE: Final = 1e-3
LAST_RATE: Final = 0.05
"""Of the learning rate, at the end."""
WARM_UP: Final = 20
CUT_ONLY: Final = 0.4
"""Share of the time, the first, in which the loss is that of the cut alone, over twice as many sequences."""
SEQUENCES: Final = 2
SCORED: Final = 0.25
"""Share of the tokens whose predictions are compared."""
SAVE_S: Final = 60.0


@torch.no_grad()
def fit_rows(states: States, sequences: Ids, cut: int) -> Tensor:
    """The table's rows [nodes, hidden] float32: states of fragments, mapped by ridge regression to those of
    the full context at the cut. Fragments of one, two and three tokens have a map each."""
    fragments, raw = states.fragments, states.of_fragments[cut].float()
    wanted, whole, rows = states.train[cut].flatten(0, 1), complete(sequences), raw.clone()
    for depth in range(1, LONGEST + 1):
        nodes = fragments.nodes(sequences, np.minimum(whole, depth)).ravel()
        equations = NormalEquations(raw.shape[1], raw.shape[1])
        for chunk in np.array_split(np.flatnonzero(whole.ravel() >= depth), 1 + len(nodes) // ROWS):
            at = torch.from_numpy(chunk)
            equations.add(raw[torch.from_numpy(nodes)[at]], wanted[at].float())
        weight, bias = equations.solve(PENALTY)
        of_depth = torch.from_numpy(np.flatnonzero(fragments.depths == depth))
        rows[of_depth] = raw[of_depth] @ weight + bias
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class LookedUp:
    """Sequences [S, T] as a table gives them: rows [nodes, hidden] float32, the node and the level of each
    token."""

    rows: Tensor
    nodes: Ids
    levels: Ids

    @classmethod
    def of(cls, rows: Tensor, states: States, sequences: Ids, depths: Ids) -> "LookedUp":
        """depths [S, T]: tokens of the fragment that is found for each token."""
        return cls(rows, states.fragments.nodes(sequences, depths), hit_levels(depths))

    def mixed(self, mixer: CausalMixer | None, chosen: NDArray[np.int64]) -> Tensor:
        """States [N, hidden] at the cut of the tokens of these sequences, with the mixer if there is one."""
        composed = self.rows[torch.from_numpy(self.nodes[chosen].ravel())]
        if mixer is None:
            return composed
        layout = packed(len(chosen), self.nodes.shape[1])
        positions = torch.from_numpy(layout.positions)
        levels = torch.from_numpy(self.levels[chosen].ravel())
        mixed: Tensor = mixer(composed, levels, positions, DenseAttention(layout))
        return mixed


@dataclass(slots=True, eq=False)
class MixerTraining:
    """Trains a mixer on cached states for so many minutes of processor time.

    Each step draws sequences, each looked up in one of LOOKUPS, chosen by chance. The loss is the error at
    the cut; later also how far predictions above the frozen upper layers are from those of the full model
    (Kullback-Leibler divergence). file: where it is kept, so that a stopped training goes on.
    """

    decoder: Decoder
    states: States
    looked_up: dict[str, LookedUp]
    cut: int
    seconds: float
    file: Path
    report: Callable[[str], None]
    mixer: CausalMixer = field(init=False)
    _used: float = 0.0
    step: int = 0

    def run(self) -> CausalMixer:
        """The trained mixer, frozen."""
        torch.manual_seed(self.cut)
        self.mixer = CausalMixer(self.decoder.architecture.hidden)
        optimizer = torch.optim.AdamW(self.mixer.parameters(), lr=LEARNING_RATE)
        self._restore(optimizer)
        scale = self.states.train[self.cut][:, 1:].float().flatten(0, 1).std(0).clamp(min=1e-6)
        saved, losses = self._used, []
        while self._used < self.seconds:
            started = time.process_time()
            for group in optimizer.param_groups:
                group["lr"] = self._rate()
            loss = self._loss(scale)
            optimizer.zero_grad(set_to_none=True)
            loss.sum().backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.mixer.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
            self.step += 1
            self._used += time.process_time() - started
            if self._used - saved >= SAVE_S or self._used >= self.seconds:
                saved = self._used
                self._save(optimizer)
                at_cut, last = torch.stack(losses).mean(0).tolist()
                self.report(f"cut {self.cut}: step {self.step}, {saved:.0f} s, {at_cut:.4f}, {last:.4f}")
                losses = []
        return self.mixer.requires_grad_(False).eval()

    def _rate(self) -> float:
        done = self._used / self.seconds
        falling = LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + np.cos(np.pi * done))
        return float(LEARNING_RATE * min(1.0, (self.step + 1) / WARM_UP) * falling)

    def _loss(self, scale: Tensor) -> Tensor:
        """[2]: the share of variance that is unexplained at the cut, a mean over the dimensions; and the
        divergence of predictions, 0 while only the cut counts."""
        rng = seeded_rng(self.cut, 0, self.step)
        at_cut_only = self._used < CUT_ONLY * self.seconds
        count = SEQUENCES * (2 if at_cut_only else 1)
        chosen = rng.integers(0, len(self.states.train[self.cut]), count)
        ways = rng.integers(0, len(LOOKUPS), count)
        mixed = torch.cat(
            [
                self.looked_up[LOOKUPS[way]].mixed(self.mixer, one)
                for way, one in zip(ways, chosen[:, None], strict=True)
            ]
        )
        layout = packed(count)
        wanted = self.states.train[self.cut][torch.from_numpy(chosen)].flatten(0, 1).float()
        error = ((mixed - wanted) / scale)[torch.from_numpy(layout.positions > 0)].square().mean()
        if at_cut_only:
            return torch.stack((error, torch.zeros(())))
        at = torch.from_numpy(rng.choice(layout.tokens, int(SCORED * layout.tokens), replace=False))
        positions = torch.from_numpy(layout.positions)
        layers = range(self.cut, self.decoder.architecture.layers)
        last = self.decoder.run_layers(mixed, positions, DenseAttention(layout), layers=layers)
        full = self.states.train[self.decoder.architecture.layers][torch.from_numpy(chosen)].flatten(0, 1)
        predicted = self.decoder.logits(last[at]).log_softmax(-1)
        with torch.no_grad():
            target = self.decoder.logits(full[at].float()).log_softmax(-1)
        divergence = functional.kl_div(predicted, target, log_target=True, reduction="batchmean")
        return torch.stack((error, divergence))

    def _save(self, optimizer: torch.optim.Optimizer) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(".partial")
        stored = {"mixer": self.mixer.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**stored, "used": self._used, "step": self.step}, partial)
        partial.replace(self.file)

    def _restore(self, optimizer: torch.optim.Optimizer) -> None:
        if not self.file.is_file():
            return
        stored = torch.load(self.file)
        self.mixer.load_state_dict(stored["mixer"])
        optimizer.load_state_dict(stored["optimizer"])
        self._used, self.step = stored["used"], stored["step"]
