import gc
import sys
from pathlib import Path

import torch

from inference.hplm.weights import read_weights, write_weights


def test_reading_weights_again_and_again_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_weights(file, {f"layer.{number}": torch.ones(4) for number in range(10)})

    def held_after(times: int) -> int:
        for _ in range(times):
            read_weights(file)
        gc.collect()
        return sys.getallocatedblocks()

    before = held_after(200)
    assert held_after(200) - before < 1000  # two for each tensor would be 4,000
