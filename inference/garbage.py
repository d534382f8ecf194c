"""What Python's garbage collector looks at in a process that serves."""

import gc


def spare_garbage_collection() -> None:
    """To be called when all is loaded: what is in memory by then mostly stays, and looking through all of it
    again and again would hold up whatever is served, for a quarter of a second each time."""
    gc.collect()
    gc.freeze()
