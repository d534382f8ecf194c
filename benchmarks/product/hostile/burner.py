"""A harmless process: ``python -m benchmarks.product.hostile.burner SHARE SECONDS`` computes that share of
the time, and sleeps for the rest."""

import sys
import time
from typing import Final

TURN_S: Final = 0.02


def burn(share: float, seconds: float) -> None:
    """Take that share of one processor for so long."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if time.process_time() < share * passed:
            _compute()
        else:
            time.sleep(TURN_S * (1.0 - share))


def _compute() -> int:
    return sum(number * number for number in range(20_000))


if __name__ == "__main__":
    burn(float(sys.argv[1]), float(sys.argv[2]))
