"""How large an hPLM may be that came from elsewhere: as large as one that is trained here, and no larger.

A batch holds hPLMs side by side, narrower ones widened to the widest: one that were larger would take the
memory of all.
"""

from typing import Final

from inference.hplm.errors import HplmError
from inference.hplm.hplm import Hplm

LARGEST_RANK: Final = 256
LARGEST_WIDTH: Final = 1024
MOST_OUTPUTS: Final = 2048


def outputs_check(outputs: int) -> None:
    """Raise HplmError(corrupt_artifact) for a head of more outputs than are served."""
    if outputs > MOST_OUTPUTS:
        raise HplmError(
            "corrupt_artifact", f"a head of {outputs:,} outputs; at most {MOST_OUTPUTS:,} are served"
        )


def sizes_check(hplm: Hplm) -> None:
    """As `outputs_check`, and for wider adapters and higher ranks than are served."""
    outputs_check(hplm.head.labels)
    spec = hplm.pet.spec
    if spec.lora > LARGEST_RANK:
        raise HplmError("corrupt_artifact", f"a rank of {spec.lora:,}; at most {LARGEST_RANK} is served")
    if (width := max(spec.adapter, spec.output_adapter)) > LARGEST_WIDTH:
        raise HplmError("corrupt_artifact", f"an adapter of width {width:,}; at most {LARGEST_WIDTH:,}")
