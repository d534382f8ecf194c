"""The local lower layers: they compute the vectors that a PLOT stores, from one fragment at a time."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.artifact_files import (
    FORMAT,
    build_from,
    freeze,
    read_artifact_json,
    read_weights,
    select_prefix,
    to_float32,
    write_json,
    write_weights,
)
from inference.hplm.compose import CONTEXT_PARTS, MIXER_PREFIX, Composition
from inference.hplm.context_mixer import ContextMixer
from inference.hplm.encoder import Embeddings, FullLower, build_blocks
from inference.hplm.fragments import DEFAULT_N, level_count, level_extent, window_extent
from inference.hplm.root_config import RootConfig
from inference.hplm.upload import Upload

JSON_FILE = "lower.json"
WEIGHTS_FILE = "lower.safetensors"


class LocalLower(nn.Module):
    """Embeddings, lower layers and affine maps whose output are the rows of a PLOT.

    level_maps [levels, n, d, d] and level_bias [levels, n, d] are the maps by level and slot of a fragment.
    The other parameters are those of `composition`. mixer: None unless it is set.
    """

    def __init__(
        self,
        architecture: Architecture,
        count: int,
        *,
        max_tokens: int,
        missing_id: int,
        n: int = DEFAULT_N,
        context_rank: int = 0,
    ) -> None:
        super().__init__()
        hidden = architecture.hidden
        self.architecture = architecture
        self.n = n
        self.max_tokens = max_tokens
        self.missing_id = missing_id
        self.embeddings = Embeddings(architecture)
        self.layers = build_blocks(architecture, 0, count)
        # Initially the mean of the overlapping fragments (paper, equation 2).
        scaled_identity = torch.eye(hidden) / n
        levels = level_count(n)
        self.level_maps = nn.Parameter(scaled_identity.expand(levels, n, hidden, hidden).clone())
        self.level_bias = nn.Parameter(torch.zeros(levels, n, hidden))
        self.position_bias = nn.Parameter(torch.zeros(max_tokens, hidden))
        self.type_bias = nn.Parameter(torch.zeros(max(1, architecture.types), hidden))
        self.context_down = nn.Parameter(torch.zeros(CONTEXT_PARTS, hidden, context_rank))
        self.context_up = nn.Parameter(torch.zeros(context_rank, hidden))
        self.mixer: ContextMixer | None = None

    @property
    def composition(self) -> Composition:
        """The composition. Its tensors are the parameters of this module."""
        return Composition(self.position_bias, self.type_bias, self.context_down, self.context_up, self.mixer)

    @classmethod
    def from_full(cls, full: FullLower, config: RootConfig) -> "LocalLower":
        """Untrained local lower layers: the checkpoint's own, averaged over overlapping fragments."""
        module = cls(
            full.architecture,
            len(full.layers),
            max_tokens=config.max_tokens,
            missing_id=config.missing_id,
            n=config.n,
        )
        module.embeddings.load_state_dict(full.embeddings.state_dict())
        module.layers.load_state_dict(full.layers.state_dict())
        return module.to(full.word_embeddings.device).eval()

    def states(self, fragments: Tensor) -> Tensor:
        """Hidden states H [F, n, d] of fragments [F, n] int64 on the CPU, before the maps.

        Positions are 0..n-1 within the fragment. Only existing tokens are computed; the state of a missing
        neighbour is that of the centre.
        """
        places, groups = self._by_level(fragments)
        return torch.cat([states for _, states in groups])[places]

    def forward(self, fragments: Tensor) -> Tensor:
        """Vectors [F, n, d] of fragments [F, n] int64 on the CPU.

        Slot s is for the token at offset s - n // 2; that of a missing token is mapped from the centre's
        state.
        """
        if not len(fragments):
            return self.level_bias.new_zeros(0, self.n, self.architecture.hidden)
        places, groups = self._by_level(fragments)
        mapped = [
            torch.einsum("fsd,sde->fse", states, self.level_maps[level]) + self.level_bias[level]
            for level, states in groups
        ]
        return torch.cat(mapped)[places]

    def _by_level(self, fragments: Tensor) -> tuple[Tensor, list[tuple[int, Tensor]]]:
        """Where each fragment lies [F] in the groups of all levels, one after another, and for each level
        that occurs the pair (level, H [k, n, d]).

        The levels are counted on the host: a GPU would have to be waited for.
        """
        left, right = window_extent(self.n)
        missing = fragments == self.missing_id
        level = missing[:, :left].sum(1) * (right + 1) + missing[:, left + 1 :].sum(1)
        order = torch.argsort(level, stable=True)
        sizes = torch.bincount(level, minlength=len(self.level_maps)).tolist()
        upload = Upload(self.level_bias.device)
        by_level, places = upload.add(fragments[order].numpy()), upload.add(torch.argsort(order).numpy())
        parts = torch.split(by_level.tensor, sizes)
        return places.tensor, [(at, self._of_level(part, at)) for at, part in enumerate(parts) if len(part)]

    def _of_level(self, fragments: Tensor, level: int) -> Tensor:
        """States [k, n, d] of fragments [k, n] of one level."""
        before, after = level_extent(level, self.n)
        centre = window_extent(self.n)[0]
        first, end = centre - before, centre + after + 1
        positions = torch.arange(first, end, device=fragments.device)
        hidden: Tensor = self.embeddings(fragments[:, first:end], positions=positions)
        for layer in self.layers:
            hidden = layer(hidden, None)
        own = hidden[:, before : before + 1]
        left, right = own.expand(-1, first, -1), own.expand(-1, self.n - end, -1)
        return torch.cat((left, hidden, right), dim=1)

    def save(self, folder: Path, report: dict[str, Any] | None = None) -> None:
        """Write lower.json and lower.safetensors into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {
            "format": FORMAT,
            "lower": len(self.layers),
            "n": self.n,
            "context_rank": len(self.context_up),
            "max_tokens": self.max_tokens,
            "missing_id": self.missing_id,
            "architecture": self.architecture.to_json(),
            "report": report or {},
        }
        write_json(folder / JSON_FILE, about)
        write_weights(folder / WEIGHTS_FILE, self.state_dict())

    @classmethod
    def load(
        cls, folder: Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> "LocalLower":
        """Read what `save` wrote, frozen."""
        about = read_artifact_json(folder / JSON_FILE)
        weights = to_float32(read_weights(folder / WEIGHTS_FILE))
        of_mixer = select_prefix(weights, MIXER_PREFIX)

        def build() -> LocalLower:
            module = cls(
                Architecture.from_json(about["architecture"]),
                int(about["lower"]),
                max_tokens=int(about["max_tokens"]),
                missing_id=int(about["missing_id"]),
                n=int(about["n"]),
                context_rank=int(about["context_rank"]),
            )
            if of_mixer:
                module.mixer = ContextMixer.sized_as(of_mixer)
            return module

        try:
            module = build_from(build, weights, WEIGHTS_FILE)
        except (KeyError, TypeError, ValueError) as error:
            raise HplmError("corrupt_artifact", f"{JSON_FILE}: missing or invalid field: {error}") from error
        freeze(module)
        return module.to(device=device, dtype=dtype)
