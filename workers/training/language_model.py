"""The root as a masked language model with a local lower half: its loss, and a head where it has none."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.lm_head import LmHead
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from inference.hplm.root_config import RootConfig
from workers.training.corpus import Ids
from workers.training.distil import FALL_BACK
from workers.training.masking import MaskedBatch, masked_batch
from workers.training.optimise import Optimiser
from workers.training.progress import Reporter
from workers.training.states import Teacher, fall_back_at_random, local_states

HEAD_WARMUP_STEPS = 10
HEAD_BATCH = 256


@dataclass(frozen=True)
class LanguageModel:
    """words: [vocab, d], the root's own word embeddings: the head is tied to them, they are never trained."""

    local: LocalLower
    teacher: Teacher
    head: LmHead
    words: Tensor
    config: RootConfig

    def states(self, masked: MaskedBatch, rng: np.random.Generator | None) -> Tensor:
        """States at the cut [B, T, d]; with `rng`, some fragments are read at a fall-back level."""
        unique = masked.batch.unique
        if rng is not None:
            unique = fall_back_at_random(unique, self.config.missing_id, rng, FALL_BACK)
        return local_states(self.local, masked.batch, self.teacher.arithmetic, unique)

    def loss(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, of the hidden tokens."""
        guessing = self._guessing(masked, at_cut)
        with self.teacher.arithmetic.autocast():
            logits: Tensor = self.head(guessing, self.words)
        return functional.cross_entropy(logits.float(), masked.wanted.to(at_cut.device))

    @torch.no_grad()
    def held_out_loss(self, groups: Sequence[list[Ids]], seed: int, reporter: Reporter) -> float:
        """Mean loss per hidden token; the same seed hides the same tokens."""
        rng = np.random.default_rng(seed)
        total, count = 0.0, 0
        for sequences in groups:
            reporter.check()
            masked = masked_batch(sequences, self.config, rng)
            total += float(self.loss(masked, self.states(masked, None))) * len(masked.wanted)
            count += len(masked.wanted)
        return total / count

    def fit_head(
        self, groups: Sequence[list[Ids]], *, learning_rate: float, passes: int, seed: int, reporter: Reporter
    ) -> None:
        """Train the head alone, `passes` times over the final states of the tokens hidden in the batches.

        Nothing below the head moves, so these states are computed once.
        """
        states, wanted = self._final_states(groups, seed, reporter)
        order = [torch.randperm(len(wanted)) for _ in range(passes)]
        steps = [
            whole[start : start + HEAD_BATCH] for whole in order for start in range(0, len(whole), HEAD_BATCH)
        ]
        reporter.stage("fit language model head", len(steps))
        self.head.requires_grad_(True)
        optimiser = Optimiser(
            [{"params": self.head.parameters(), "lr": learning_rate}],
            steps=len(steps),
            warmup=HEAD_WARMUP_STEPS,
        )
        for done, part in enumerate(steps, start=1):
            reporter.check()
            with self.teacher.arithmetic.autocast():
                logits = self.head(states[part], self.words)
            loss = optimiser.step(functional.cross_entropy(logits.float(), wanted[part]))
            reporter.advance(done, loss=loss)
        self.head.requires_grad_(False)

    @torch.no_grad()
    def _final_states(
        self, groups: Sequence[list[Ids]], seed: int, reporter: Reporter
    ) -> tuple[Tensor, Tensor]:
        """States after the last layer [K, d] of hidden tokens, and what these were [K]."""
        reporter.stage("read for the language model head", len(groups))
        rng = np.random.default_rng(seed)
        states, wanted = [], []
        for done, sequences in enumerate(groups, start=1):
            reporter.check()
            masked = masked_batch(sequences, self.config, rng)
            states.append(self._guessing(masked, self.states(masked, None)))
            wanted.append(masked.wanted.to(states[-1].device))
            reporter.advance(done)
        return torch.cat(states), torch.cat(wanted)

    def _guessing(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """States after the last layer of the hidden tokens, [K, d]."""
        last = self.teacher.upper_states(at_cut, masked.batch)
        return last[masked.rows.to(at_cut.device), masked.places.to(at_cut.device)]


def new_head(root: Root, groups: Sequence[list[Ids]]) -> LmHead:
    """An untrained head that answers with the frequencies of the tokens in the batches."""
    head = LmHead(root.config.architecture)
    ids = np.concatenate([sequence for group in groups for sequence in group])
    counts = np.bincount(ids, minlength=root.config.vocab) + 0.1
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
        # A final state resembles its token's embedding: start from that, not from noise.
        torch.nn.init.eye_(head.dense.weight)
        head.dense.bias.zero_()
    return head
