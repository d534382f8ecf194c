"""``python -m tests.integration.inference.worker.filling FOLDER KIB MEMORY_KIB [TURNS]``: fills slabs with
models, uses them, and empties slots for others, until it is killed or has done so many turns. It looks at all
that it gets."""

import random
import sys
from pathlib import Path

import torch

from inference.engine.slab_room import SlabRoom
from inference.engine.slabs import open_slabs
from inference.hplm.pets import UpperShape
from tests.unit.inference.engine.shelf import Shelf, use

HPLMS = 40
LARGE = UpperShape(2, 1024, 4096)
"""So that writing a model takes a while."""


def main(room: SlabRoom, memory_bytes: int, turns: int) -> None:
    """Says how many models it has found, and how many there are in the end."""
    draw = random.Random()
    cache = Shelf(LARGE).cache(open_slabs(torch.float32, room, memory_bytes=memory_bytes))
    sys.stdout.write(f"found {len(cache)}\n")
    sys.stdout.flush()
    for _ in range(turns):
        use(cache, *draw.sample(range(HPLMS), 4))
        cache.check_integrity()
    sys.stdout.write(f"kept {len(cache)}\n")


if __name__ == "__main__":
    folder, room, memory, *turns = sys.argv[1:]
    main(SlabRoom(Path(folder), int(room) << 10), int(memory) << 10, int(turns[0]) if turns else sys.maxsize)
