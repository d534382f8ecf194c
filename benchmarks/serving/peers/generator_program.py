"""One way to generate, in a process and an environment of its own: builds its models, then generates as told.

`python -m benchmarks.serving.peers.generator_program SETTINGS` (`GeneratorSettings`, as JSON) answers
{"steps": 3} by {"tokens": 96, "cpu_seconds": 1.1, "seconds": 0.6}: see `json_lines`.
"""

import json
import sys
import time
from typing import Any

from benchmarks.serving.peers.generators import GENERATORS, PACKAGES, GeneratorSettings
from benchmarks.serving.peers.json_lines import serve, versions


class Bench:
    """Generates and tells what it took."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._generator = GENERATORS[settings.way](settings)

    def ready(self) -> dict[str, Any]:
        """Which versions stand here."""
        return {"versions": dict(versions(PACKAGES))}

    def answer(self, **request: Any) -> dict[str, Any]:
        """As many more tokens of each row as "steps" says; processor time is that of all threads."""
        cpu, started = time.process_time(), time.perf_counter()
        tokens = self._generator.run(request["steps"])
        return {
            "tokens": tokens,
            "cpu_seconds": time.process_time() - cpu,
            "seconds": time.perf_counter() - started,
        }


def main() -> int:
    """Answer until the input ends."""
    return serve(lambda: Bench(GeneratorSettings(**json.loads(sys.argv[1]))))


if __name__ == "__main__":
    sys.exit(main())
