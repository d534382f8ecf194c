"""A pretended GPU for tests: tensors that say ``cuda:0`` and compute on the CPU.

Within `pretended_cuda` PyTorch finds one GPU. What runs there gives the numbers of the CPU; its copies, waits
and launches are noted, and tensors of both devices in one operation raise, as on a GPU. Streams and events do
nothing.

    with pretended_cuda(capability=(7, 5)) as cuda:
        root = Root.load(folder, "cuda", torch.float16)
        cuda.clear()
        ...
    assert len(cuda.copies) <= 6, cuda.copies
"""

from tests.pretended_cuda.device import PretendedCuda, PretendedTensor
from tests.pretended_cuda.runtime import pretended_cuda

__all__ = ["PretendedCuda", "PretendedTensor", "pretended_cuda"]
