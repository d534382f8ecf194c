"""Compare two versions of a generative model by their loss on the same rows."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import torch

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.lora_parameters import LoraParameters
from workers.training.generative.rows import read_rows
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.generative.training import GenerativeSplit, completion_loss
from workers.training.paired_test import PairedResult, only_statistic, p_value_worse
from workers.training.progress import Reporter
from workers.training.tasks.base import Floats

LOSS: Final = "loss"


def compare_generative(
    *,
    decoder: Decoder,
    tokenizer: GenerativeTokenizer,
    old: DecoderLora,
    new: DecoderLora,
    files: Mapping[str, Path],
    task: str,
    settings: GenerativeSettings,
    reporter: Reporter,
) -> dict[str, PairedResult]:
    """The mean over the rows of each file of the loss (nats) per token that a good model writes.

    Files whose rows have nothing to write within the tokens of a sequence are left out. Both versions have
    the same root, `decoder`.
    """
    context = min(tokenizer.max_tokens, decoder.architecture.positions)
    tokenizer = replace(tokenizer, max_tokens=min(settings.max_tokens, context))
    found = {}
    for name, file in files.items():
        sequences = [one for row in read_rows(file, task) if (one := tokenizer.sequence(row)) is not None]
        if sequences:
            split = GenerativeSplit(sequences, FrozenStates(decoder, sequences, 0, reporter))
            before, after = (_losses(decoder, lora, split, reporter) for lora in (old, new))
            worse = p_value_worse(-before, -after, only_statistic)
            found[name] = PairedResult(LOSS, len(sequences), before.mean(), after.mean(), worse)
    return found


@torch.no_grad()
def _losses(decoder: Decoder, stored: DecoderLora, split: GenerativeSplit, reporter: Reporter) -> Floats:
    """The loss per token of each row [N, 1], one row at a time."""
    lora = LoraParameters(stored.tensors).to(decoder.device)
    lora.eval()
    losses = []
    for index in range(len(split.sequences)):
        reporter.raise_if_cancelled()
        losses.append(completion_loss(decoder, lora, split, [index]))
    return np.asarray(torch.stack(losses).tolist())[:, None]
