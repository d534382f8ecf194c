"""Python's garbage collector in processes that serve requests."""

import gc


def freeze_loaded_objects() -> None:
    """Exclude all objects that exist now from garbage collection. Call it once everything is loaded.

    Most of them live as long as the process, and each full collection would scan them for 0.25 s.
    """
    gc.collect()
    gc.freeze()
