import gc
import sys
from itertools import pairwise
from pathlib import Path

import torch

from inference.hplm.artifact_files import read_weights, write_weights


def test_reading_weights_again_and_again_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_weights(file, {f"layer.{number}": torch.ones(4) for number in range(10)})

    def held_after(times: int) -> int:
        for _ in range(times):
            read_weights(file)
        gc.collect()
        return sys.getallocatedblocks()

    held = [held_after(200) for _ in range(5)]
    # Two for each tensor would be 4,000 each time. The process holds more now and then for other threads.
    assert min(after - before for before, after in pairwise(held)) < 1000
