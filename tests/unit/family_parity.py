"""Random checkpoints of every encoder family and flag, and their states by our and by their own library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from tests.unit.families import published

POSITIONS: Final = 162
LENGTHS: Final = (1, 2, 127, 128, 129)
FLAGS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {}),
    "distilbert": ("distilbert", {}),
    "electra": ("electra", {}),
    "mpnet": ("mpnet", {}),
    "modernbert": ("modernbert", {"num_hidden_layers": 5}),
    "modernbert with biases, other windows and layers": (
        "modernbert",
        {
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "local_attention": 20,
            "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
            "hidden_activation": "silu",
            "classifier_activation": "silu",
        },
    ),
    "modernbert of a longer context than a block": (
        "modernbert",
        {"max_position_embeddings": 700, "local_attention": 64, "num_hidden_layers": 3},
    ),
    "deberta-v3": ("deberta-v2", {}),
    "deberta-v2 with maps of positions": ("deberta-v2", {"share_att_key": False, "norm_rel_ebd": "none"}),
    "deberta-v2 of content to position": ("deberta-v2", {"pos_att_type": ["c2p"], "type_vocab_size": 2}),
    "deberta-v2 of position to content": (
        "deberta-v2",
        {"pos_att_type": "p2c", "position_biased_input": True},
    ),
    "deberta-v2 without buckets": (
        "deberta-v2",
        {"position_buckets": -1, "max_relative_positions": 100},
    ),
    "nomic_bert": ("nomic_bert", {}),
    "gte": ("gte", {}),
    "gte without token types": ("gte", {"type_vocab_size": 0, "hidden_act": "relu"}),
    "mpnet with other activations": ("mpnet", {"hidden_act": "relu", "layer_norm_eps": 1e-5}),
}


def ids_of(length: int, types: int) -> tuple[Tensor, Tensor]:
    """Random token ids and types [1, length]."""
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(10, 250, (1, length), generator=generator)
    return ids, torch.randint(0, types, (1, length), generator=generator)


@torch.no_grad()
def original(model: Any, ids: Tensor, types: Tensor) -> Tensor:
    """The last hidden states [T, d] of the library."""
    takes = {"token_type_ids": types} if "type_vocab_size" in model.config.to_dict() else {}
    states: Tensor = model.base_model(ids, attention_mask=torch.ones_like(ids), **takes).last_hidden_state
    return states[0]


@torch.no_grad()
def states(name: str, folder: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of final states [T, d] of a text: ours and the library's. Texts of LENGTHS and of the root's
    longest, first packed into one batch, then alone. name: of FLAGS. folder: for the checkpoint."""
    family, changes = FLAGS[name]
    model = published(folder, family, **{"max_position_embeddings": POSITIONS, **changes})
    root = Root.from_checkpoint(open_checkpoint(folder))
    lengths = (*LENGTHS, root.config.max_tokens)
    texts = [ids_of(length, root.config.type_count) for length in lengths]
    expected = [original(model, *text) for text in texts]
    sequences = PackedSequences(lengths)
    ids, types = (torch.cat(parts, dim=1)[0] for parts in zip(*texts, strict=True))
    packed = root.upper(root.checkpoint_lower()(ids, sequences, types), sequences)
    yield from zip(sequences.split(packed), expected, strict=True)
    for text, wanted in zip(texts, expected, strict=True):
        layout = PackedSequences((len(wanted),))
        yield root.upper(root.checkpoint_lower()(text[0][0], layout, text[1][0]), layout), wanted
