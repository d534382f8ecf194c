"""The version of the demo: a newer copy of HMI builds again what has changed since."""

from collections.abc import Iterable, Mapping
from typing import Final

from demo.datasets import DemoTask

DEMO_VERSION: Final = 2
"""Count it up with each change of what the demo builds: its texts, settings, names or checkpoints."""
UNCHANGED_SINCE: Final[Mapping[str, int]] = {}
"""The version since which a part is the same, of the parts that `DEMO_VERSION` does not change."""
ROOT: Final = "root"
DOMAIN: Final = "domain"
DECODER: Final = "decoder"


def model_part(task: DemoTask) -> str:
    """The name of the part that is the model of a task."""
    return f"{task.tenant}/{task.hplm}"


def part_versions(encoder_tasks: Iterable[DemoTask], writing_tasks: Iterable[DemoTask]) -> dict[str, int]:
    """The versions of all parts by name. A part is built again with what it stands on."""
    versions = {ROOT: _own(ROOT), DECODER: _own(DECODER)}
    versions[DOMAIN] = max(_own(DOMAIN), versions[ROOT])
    for task in encoder_tasks:
        name = model_part(task)
        versions[name] = max(_own(name), versions[DOMAIN if task.under_domain else ROOT])
    for task in writing_tasks:
        versions[model_part(task)] = max(_own(model_part(task)), versions[DECODER])
    return versions


def _own(name: str) -> int:
    return UNCHANGED_SINCE.get(name, DEMO_VERSION)
