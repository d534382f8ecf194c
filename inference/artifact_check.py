"""`python -m inference.artifact_check`: loads untrusted artifacts and adapters in a process of its own.

Reads a JSON object from stdin and writes one line of JSON to stdout. An object with `adapter` is an import,
one with `format` is an export, any other a check of artifacts. The folder `root` says whether that is done
for an encoder (`inference.hplm`) or for a decoder (`inference.decoder`). `{"error"}` is the reason why it is
impossible; with `lower`, the tensors below the cut that an adapter changes.
"""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from inference.decoder.artifact_check import check_generative_artifacts
from inference.decoder.peft_conversion import generative_adapter_export, generative_adapter_import
from inference.errors import HplmError
from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_folder import LowerLayersChangedError
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.artifact_check import check_artifacts
from inference.text.tokenization import DECODER_FILE

Command = Callable[[Mapping[str, Any]], dict[str, Any]]
COMMANDS: Final[Mapping[str, tuple[Command, Command]]] = {
    "import": (adapter_import, generative_adapter_import),
    "export": (adapter_export, generative_adapter_export),
    "check": (check_artifacts, check_generative_artifacts),
}
"""What is done for an encoder, and for a decoder."""


def run_request(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Run the command that the payload stands for. Errors are returned as ``error``."""
    try:
        return _command(payload)(payload)
    except LowerLayersChangedError as error:
        return {"error": error.message, "lower": error.names}
    except HplmError as error:
        return {"error": error.message}
    # Untrusted files reach code that expects files of this product, so anything may be raised.
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}


def _command(payload: Mapping[str, Any]) -> Command:
    name = "import" if "adapter" in payload else "export" if "format" in payload else "check"
    return COMMANDS[name][(Path(payload["root"]) / DECODER_FILE).is_file()]


def main() -> None:
    """Write the result as one line of JSON."""
    sys.stdout.write(json.dumps(run_request(json.load(sys.stdin))) + "\n")


if __name__ == "__main__":
    main()
