"""The small JSON files that stand beside the weights of an artifact."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.hplm.errors import HplmError

FORMAT = 2


def read_json(
    path: Path, *, missing: str = "corrupt_artifact", damaged: str = "corrupt_artifact"
) -> dict[str, Any]:
    """The JSON object in `path`; HplmError with code `missing` or `damaged` when there is none."""
    if not path.is_file():
        raise HplmError(missing, f"{path.name} is missing")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise HplmError(damaged, f"{path.name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise HplmError(damaged, f"{path.name} is not a JSON object")
    return value


def read_artifact_json(path: Path) -> dict[str, Any]:
    """`read_json` of a file that this program wrote: its format number must be one that is known."""
    value = read_json(path)
    if value.get("format") != FORMAT:
        raise HplmError("corrupt_artifact", f"{path.name}: format {value.get('format')!r} is not {FORMAT}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write `value`, keys sorted, so that equal content gives equal bytes."""
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
