"""The states below the layers that learn: the same in every epoch, so they are computed once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.upload import Upload
from workers.training.generative.packing import PackedBatch, TrainingSequence, pack, token_batches
from workers.training.lower_states import map_temporary_file
from workers.training.progress import Reporter

STAGE: Final = "compute in full"
TOKENS_PER_BATCH: Final = 4096


class FrozenStates:
    """States [T, hidden] float32 below layer `first` of the tokens of each sequence.

    They lie in a temporary file. With `first` 0 they are embeddings, which cost
    nothing, and there is no file.
    """

    def __init__(
        self,
        decoder: Decoder,
        sequences: Sequence[TrainingSequence],
        first: int,
        reporter: Reporter,
        folder: Path | None = None,
    ) -> None:
        """folder: on whose disk the states lie (None: that of temporary files).

        Raises HplmError("out_of_disk") before it computes any.
        """
        self._decoder, self.first = decoder, first
        ends = np.cumsum([len(one) for one in sequences], dtype=np.int64)
        self._starts: npt.NDArray[np.int64] = np.concatenate(([0], ends))
        self._flat: Tensor | None = None
        if first:
            shape = int(ends[-1]), decoder.architecture.hidden
            self._flat = torch.from_numpy(map_temporary_file(shape, np.float32, folder))
            self._compute(sequences, self._flat, reporter)

    def of(self, indices: Sequence[int], batch: PackedBatch) -> Tensor:
        """The states [T, hidden] of the sequences number `indices`, which `batch` holds in this order."""
        if self._flat is None:
            return self._decoder.embed(batch.token_ids, batch.positions)
        parts = [self._flat[self._starts[index] : self._starts[index + 1]] for index in indices]
        states = Upload(self._decoder.device).add(torch.cat(parts).numpy()).tensor
        return functional.pad(states, (0, 0, 0, len(batch.token_ids) - batch.tokens))

    @torch.no_grad()
    def _compute(self, sequences: Sequence[TrainingSequence], flat: Tensor, reporter: Reporter) -> None:
        reporter.start_stage(STAGE, len(sequences))
        done = 0
        for indices in token_batches([len(one) for one in sequences], TOKENS_PER_BATCH):
            reporter.raise_if_cancelled()
            batch = pack([sequences[index] for index in indices], self._decoder.device)
            states = self._decoder.run_layers(
                self._decoder.embed(batch.token_ids, batch.positions),
                batch.positions,
                DenseAttention(batch.layout),
                layers=range(self.first),
            )
            # Without a random generator the batches are in the order of the sequences.
            flat[self._starts[indices[0]] : self._starts[indices[-1] + 1]] = states[: batch.tokens].cpu()
            done += len(indices)
            reporter.report(done)
