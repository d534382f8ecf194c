"""The lower layers as a PLOT knows them: seeing one fragment at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig

from inference.hplm.bert import (
    attention_block,
    attention_mask,
    build_embeddings,
    build_layers,
    config_json,
    feed_forward_block,
    freeze,
    load_weights,
    parse_config,
)
from inference.hplm.errors import HplmError
from inference.hplm.fragments import LEVELS, N
from inference.hplm.full_lower import FullLower
from inference.hplm.json_files import FORMAT, read_artifact_json, write_json
from inference.hplm.root_config import RootConfig
from inference.hplm.weights import read_weights, widen, write_weights

JSON_FILE = "lower.json"
WEIGHTS_FILE = "lower.safetensors"


class LocalLower(nn.Module):
    """Embeddings, lower layers and the affine maps that turn their output into a PLOT's rows.

    Attributes: `level_maps` [4, 3, d, d] and `level_bias` [4, 3, d] (per level of the fragment, per slot),
    `position_bias` [max_tokens, d] (added after the sum of a token's three contributions, see `compose`).
    """

    def __init__(self, bert: BertConfig, count: int, *, max_tokens: int, missing_id: int) -> None:
        super().__init__()
        hidden = bert.hidden_size
        self.bert = bert
        self.max_tokens = max_tokens
        self.missing_id = missing_id
        self.embeddings = build_embeddings(bert)
        self.layers = build_layers(bert, count)
        # A third of each slot's own state: the plain mean of the three overlapping fragments (paper, eq. 2).
        third = torch.eye(hidden) / N
        self.level_maps = nn.Parameter(third.expand(len(LEVELS), N, hidden, hidden).clone())
        self.level_bias = nn.Parameter(torch.zeros(len(LEVELS), N, hidden))
        self.position_bias = nn.Parameter(torch.zeros(max_tokens, hidden))

    @classmethod
    def from_full(cls, full: FullLower, config: RootConfig) -> "LocalLower":
        """Start from the checkpoint's own lower layers and the mean of overlapping fragments."""
        module = cls(full.bert, len(full.layers), max_tokens=config.max_tokens, missing_id=config.missing_id)
        module.embeddings.load_state_dict(full.embeddings.state_dict())
        module.layers.load_state_dict(full.layers.state_dict())
        return module.to(full.word_embeddings.device).eval()

    def states(self, fragments: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states H [F, 3, d] of fragments [F, 3] int64, before the maps, and where a token is [F, 3]
        bool.

        Positions are 0..2 inside the fragment; a missing neighbour is masked, and its own state means
        nothing.
        """
        present = fragments != self.missing_id
        ids = torch.where(present, fragments, torch.zeros_like(fragments))
        hidden: Tensor = self.embeddings(input_ids=ids)
        attend = attention_mask(present)
        for layer in self.layers:
            hidden = feed_forward_block(layer, attention_block(layer, hidden, attend))
        return hidden, present

    def forward(self, fragments: Tensor) -> Tensor:
        """Contributions [F, 3, d] of fragments [F, 3] int64: slot s is for the token at offset s - 1.

        A slot whose token is missing is mapped from the centre's state, so every row has all three slots.
        """
        if not len(fragments):
            return self.level_bias.new_zeros(0, N, self.bert.hidden_size)
        hidden, present = self.states(fragments)
        chosen = torch.where(present[..., None], hidden, hidden[:, 1:2])
        level = (~present[:, 2]).long() + 2 * (~present[:, 0]).long()
        order = torch.argsort(level, stable=True)
        sizes = torch.bincount(level, minlength=len(LEVELS)).tolist()
        groups = torch.split(chosen[order], sizes)
        mapped = [
            torch.einsum("fsd,sde->fse", group, self.level_maps[index]) + self.level_bias[index]
            for index, group in enumerate(groups)
            if len(group)
        ]
        return torch.cat(mapped)[torch.argsort(order)]

    def save(self, folder: Path, report: dict[str, Any] | None = None) -> None:
        """Write lower.json and lower.safetensors into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FORMAT,
            "lower": len(self.layers),
            "n": N,
            "hidden": self.bert.hidden_size,
            "max_tokens": self.max_tokens,
            "missing_id": self.missing_id,
            "bert": config_json(self.bert),
            "report": report or {},
        }
        write_json(folder / JSON_FILE, about)
        write_weights(folder / WEIGHTS_FILE, self.state_dict())

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "LocalLower":
        """Read what `save` wrote; frozen (a further pretraining turns the gradients on again)."""
        about = read_artifact_json(folder / JSON_FILE)
        module = _built(
            lambda: cls(
                parse_config(about["bert"]),
                int(about["lower"]),
                max_tokens=int(about["max_tokens"]),
                missing_id=int(about["missing_id"]),
            )
        )
        load_weights(module, widen(read_weights(folder / WEIGHTS_FILE)), WEIGHTS_FILE)
        freeze(module)
        return module.to(device=device, dtype=dtype)


def _built(build: Callable[[], LocalLower]) -> LocalLower:
    try:
        return build()
    except (KeyError, TypeError, ValueError) as error:
        raise HplmError("corrupt_artifact", f"{JSON_FILE} lacks or garbles {error}") from error
