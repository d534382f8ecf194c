"""The lower layers as a PLOT knows them: seeing one fragment at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from inference.hplm.architecture import Architecture
from inference.hplm.block import Embeddings, build_blocks
from inference.hplm.errors import HplmError
from inference.hplm.fragments import N, level_count, reach
from inference.hplm.full_lower import FullLower
from inference.hplm.json_files import FORMAT, read_artifact_json, write_json
from inference.hplm.root_config import RootConfig
from inference.hplm.weights import fill, freeze, read_weights, widen, write_weights

JSON_FILE = "lower.json"
WEIGHTS_FILE = "lower.safetensors"


class LocalLower(nn.Module):
    """Embeddings, lower layers and the affine maps that turn their output into a PLOT's rows.

    Attributes: `level_maps` [levels, n, d, d] and `level_bias` [levels, n, d] (per level of the fragment, per
    slot); `position_bias` [max_tokens, d] and `type_bias` [types, d], added after the sum of a token's
    contributions (see `compose`).
    """

    def __init__(
        self, shape: Architecture, count: int, *, max_tokens: int, missing_id: int, n: int = N
    ) -> None:
        super().__init__()
        hidden = shape.hidden
        self.shape = shape
        self.n = n
        self.max_tokens = max_tokens
        self.missing_id = missing_id
        self.embeddings = Embeddings(shape)
        self.layers = build_blocks(shape, count)
        # A part of each slot's own state: the plain mean of the overlapping fragments (paper, eq. 2).
        part = torch.eye(hidden) / n
        levels = level_count(n)
        self.level_maps = nn.Parameter(part.expand(levels, n, hidden, hidden).clone())
        self.level_bias = nn.Parameter(torch.zeros(levels, n, hidden))
        self.position_bias = nn.Parameter(torch.zeros(max_tokens, hidden))
        self.type_bias = nn.Parameter(torch.zeros(max(1, shape.types), hidden))

    @classmethod
    def from_full(cls, full: FullLower, config: RootConfig) -> "LocalLower":
        """Start from the checkpoint's own lower layers and the mean of overlapping fragments."""
        module = cls(
            full.shape,
            len(full.layers),
            max_tokens=config.max_tokens,
            missing_id=config.missing_id,
            n=config.n,
        )
        module.embeddings.load_state_dict(full.embeddings.state_dict())
        module.layers.load_state_dict(full.layers.state_dict())
        return module.to(full.word_embeddings.device).eval()

    def states(self, fragments: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states H [F, n, d] of fragments [F, n] int64, before the maps, and where a token is [F, n]
        bool.

        Positions are 0..n-1 inside the fragment; a missing neighbour is masked, and its own state means
        nothing.
        """
        present = fragments != self.missing_id
        ids = torch.where(present, fragments, torch.zeros_like(fragments))
        hidden: Tensor = self.embeddings(ids)
        for layer in self.layers:
            hidden = layer(hidden, present)
        return hidden, present

    def forward(self, fragments: Tensor) -> Tensor:
        """Contributions [F, n, d] of fragments [F, n] int64: slot s is for the token at offset s - n // 2.

        A slot whose token is missing is mapped from the centre's state, so every row has all its slots.
        """
        left, right = reach(self.n)
        if not len(fragments):
            return self.level_bias.new_zeros(0, self.n, self.shape.hidden)
        hidden, present = self.states(fragments)
        chosen = torch.where(present[..., None], hidden, hidden[:, left : left + 1])
        absent = ~present
        level = absent[:, :left].sum(1) * (right + 1) + absent[:, left + 1 :].sum(1)
        order = torch.argsort(level, stable=True)
        sizes = torch.bincount(level, minlength=len(self.level_maps)).tolist()
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
            "n": self.n,
            "max_tokens": self.max_tokens,
            "missing_id": self.missing_id,
            "architecture": self.shape.to_json(),
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
                Architecture.from_json(about["architecture"]),
                int(about["lower"]),
                max_tokens=int(about["max_tokens"]),
                missing_id=int(about["missing_id"]),
                n=int(about["n"]),
            )
        )
        fill(module, widen(read_weights(folder / WEIGHTS_FILE)), WEIGHTS_FILE)
        freeze(module)
        return module.to(device=device, dtype=dtype)


def _built(build: Callable[[], LocalLower]) -> LocalLower:
    try:
        return build()
    except (KeyError, TypeError, ValueError) as error:
        raise HplmError("corrupt_artifact", f"{JSON_FILE} lacks or garbles {error}") from error
