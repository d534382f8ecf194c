"""Python's garbage collector in processes that serve requests."""

import atexit
import gc


def freeze_loaded_objects() -> None:
    """Exclude all objects that exist now from garbage collection. Call it once everything is loaded.

    Most of them live as long as the process, and each full collection would scan them for 0.25 s. As the
    process exits they are collected like any others: some libraries, such as Triton, write a report of what
    is left over then.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)
