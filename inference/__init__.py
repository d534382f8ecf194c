"""Inference: the models, the engine, the inference worker, and the APIs."""

import os

# PyTorch reads this at its first large allocation on a CPU. Huge pages cause fewer page faults: a batch of 32
# texts of 128 tokens takes 8% less time.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
