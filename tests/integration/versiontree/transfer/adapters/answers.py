"""What a model answers from the states that its root's checkpoint computes at the cut."""

import torch
from torch import Tensor

from inference.hplm.hplm import Hplm
from inference.hplm.root import Root
from tests.reference_hplm import outputs_from_states


def answered(root: Root, hplm: Hplm, ids: Tensor) -> Tensor:
    """Its outputs for rows of tokens [B, T], from the checkpoint's own lower layers."""
    with torch.no_grad():
        states = root.checkpoint_lower()(ids, torch.ones_like(ids).bool())
    return torch.stack([torch.from_numpy(outputs_from_states(root, hplm, row)) for row in states])
