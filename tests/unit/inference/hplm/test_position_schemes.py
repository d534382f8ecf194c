"""Layers with rotary and relative positions and windows compute alike packed, padded, in training, in half
precision and on a GPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from inference.hplm.attention import add_encoder_layout
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload
from tests.pretended_cuda import pretended_cuda
from tests.unit.families import published

LENGTHS = (3, 40, 3, 1, 90)
KINDS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "mpnet": ("mpnet", {}),
    "modernbert": ("modernbert", {"local_attention": 8}),
    "modernbert in blocks": ("modernbert", {"local_attention": 8, "max_position_embeddings": 400}),
    "deberta": ("deberta-v2", {}),
    "nomic": ("nomic_bert", {}),
}


@pytest.fixture(scope="module", params=KINDS)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Root:
    family, changes = KINDS[request.param]
    folder: Path = tmp_path_factory.mktemp(family)
    published(folder, family, **{"max_position_embeddings": 120, "hidden_size": 64, **changes})
    return Root.from_checkpoint(open_checkpoint(folder), lower=2)


def lengths_of(root: Root) -> tuple[int, ...]:
    longest = root.config.max_tokens
    return (*LENGTHS, longest) if longest > 256 else LENGTHS


def packed_states(root: Root) -> tuple[Tensor, PackedSequences]:
    """Random states at the cut [N, d]."""
    sequences = PackedSequences(lengths_of(root))
    generator = torch.Generator().manual_seed(0)
    return torch.randn(sequences.tokens, root.config.hidden, generator=generator), sequences


def padded(states: Tensor, sequences: PackedSequences) -> tuple[Tensor, Tensor]:
    """The states [B, T, d], with numbers that mean nothing behind each text, and the mask [B, T]."""
    mask = torch.arange(sequences.longest) < torch.tensor(sequences.lengths)[:, None]
    filled = torch.full((*mask.shape, states.shape[1]), 7.0)
    filled[mask] = states
    return filled, mask


def test_padded_states_are_those_of_packed_ones_in_training_too(root: Root) -> None:
    states, sequences = packed_states(root)
    filled, mask = padded(states, sequences)
    with torch.no_grad():
        expected = root.upper(states, sequences)
        torch.testing.assert_close(root.upper(filled, mask)[mask], expected, atol=2e-5, rtol=1e-4)
    learning, own = filled.requires_grad_(), states.requires_grad_()
    found = root.upper(learning, mask)[mask]
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)
    weights = torch.linspace(-1, 1, found.numel()).view_as(found)
    (gradient,) = torch.autograd.grad(found, learning, weights)
    (wanted,) = torch.autograd.grad(root.upper(own, sequences), own, weights)
    torch.testing.assert_close(gradient[mask], wanted, atol=1e-4, rtol=1e-4)
    assert not gradient[~mask].any()


@pytest.mark.parametrize(
    ("capability", "dtype"), [((7, 5), torch.float32), ((9, 0), torch.bfloat16)], ids=str
)
@torch.no_grad()
def test_a_gpu_computes_the_same(root: Root, capability: tuple[int, int], dtype: torch.dtype) -> None:
    states, sequences = packed_states(root)
    root = Root(root.config, root.upper.to(dtype))
    expected = root.upper(states, sequences).float()
    with pretended_cuda(capability) as cuda:
        upper = root.upper.to("cuda")
        there, upload = PackedSequences(sequences.lengths), Upload(torch.device("cuda:0"))
        add_encoder_layout(there, upload, dtype, root.config.architecture)
        upload.send()
        inputs = states.to("cuda")
        upper(inputs, there)
        cuda.clear()
        found = upper(inputs, there).cpu().float()
        uploads = [copy for copy in cuda.copies if "to the device" in copy]
        upper.to("cpu")
    root.upper.float()
    assert not uploads, "what layers need of a layout that they have seen lies on the device"
    error = float((found - expected).norm() / expected.norm())
    assert error < (1e-5 if dtype == torch.float32 else 0.02)


@torch.no_grad()
def test_half_precision_is_close(root: Root) -> None:
    states, sequences = packed_states(root)
    expected = root.upper(states, sequences)
    found = root.upper.to(torch.bfloat16)(states, sequences).float()
    root.upper.float()
    assert float((found - expected).norm() / expected.norm()) < 0.03


@torch.no_grad()
def test_a_whole_fragment_is_computed_as_a_text_of_its_tokens(root: Root) -> None:
    full = root.checkpoint_lower()
    local = LocalLower.from_full(full, root.config)
    fragments = torch.from_numpy(np.array([[20, 30, 40], [50, 60, 70]]))
    as_texts = full(fragments, torch.ones_like(fragments, dtype=torch.bool))
    torch.testing.assert_close(local.states(fragments), as_texts, atol=1e-5, rtol=1e-5)
