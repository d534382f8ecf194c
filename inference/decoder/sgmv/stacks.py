"""LoRAs one after another in memory, so that one batched product reads those of all short segments."""

from collections.abc import Sequence
from typing import Final

import torch
from cachetools import LRUCache
from torch import Tensor

from inference.decoder.lora import DecoderLora
from inference.decoder.lora_layout import LoraLayout

MAX_STACKS: Final = 8
"""The layouts whose stacks are kept."""


class LoraStack:
    """Copies of LoRAs with one layout and dtype, each a row of all its weights. Those that the next step uses
    as well stay in place: if a request begins or ends, one LoRA is copied."""

    def __init__(self, layout: LoraLayout, dtype: torch.dtype) -> None:
        self._rows = torch.empty(0, layout.width, dtype=dtype)
        self._loras: list[DecoderLora] = []

    def arrange(self, loras: Sequence[DecoderLora]) -> tuple[list[DecoderLora], Tensor]:
        """These n different LoRAs in the order of their rows, and the rows [n, width], which are valid until
        the next call."""
        wanted, kept = set(loras), self._loras[: len(loras)]
        missing = [lora for lora in loras if lora not in kept]
        self._reserve(len(loras))
        for place in range(len(loras)):
            if place == len(kept):
                kept.append(missing.pop())
            elif kept[place] not in wanted:
                kept[place] = missing.pop()
            else:
                continue
            self._rows[place].copy_(kept[place].row)
        self._loras = kept
        return kept, self._rows[: len(kept)]

    def _reserve(self, count: int) -> None:
        if count > len(self._rows):
            rows = self._rows.new_empty(max(count, 2 * len(self._rows)), self._rows.shape[1])
            rows[: len(self._loras)] = self._rows[: len(self._loras)]
            self._rows = rows


class LoraStacks:
    """The stacks of a worker, one for each layout and dtype; the one used least recently is dropped."""

    def __init__(self) -> None:
        self._stacks: LRUCache[tuple[LoraLayout, torch.dtype], LoraStack] = LRUCache(MAX_STACKS)

    def arrange(self, loras: Sequence[DecoderLora]) -> tuple[list[DecoderLora], Tensor]:
        """As `LoraStack.arrange`; the LoRAs have one layout and dtype."""
        key = loras[0].layout, loras[0].row.dtype
        return self._stacks.setdefault(key, LoraStack(*key)).arrange(loras)
