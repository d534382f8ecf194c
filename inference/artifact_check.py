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

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.peft_conversion import generative_adapter_export, generative_adapter_import
from inference.decoder.root import DecoderRoot, DecoderRootConfig
from inference.errors import HplmError
from inference.hplm.adapter_io.adapter_export import adapter_export
from inference.hplm.adapter_io.adapter_folder import LowerLayersChangedError
from inference.hplm.adapter_io.adapter_import import adapter_import
from inference.hplm.artifact_check import check_artifacts
from inference.hplm.artifact_files import read_artifact_json
from inference.text.chat_template import ChatTemplate
from inference.text.generative_codec import GenerativeCodec
from inference.text.tokenization import DECODER_FILE


def check_generative_artifacts(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Load a generative model (`hplm`: its folder, or None), and its decoder `root` with all its texts if
    `root_is_new`.

    Returns the `task` and `pairs` of the model. Raises HplmError if an artifact is invalid or if the model
    does not fit the decoder.
    """
    root = Path(payload["root"])
    if payload["root_is_new"]:
        loaded = DecoderRoot.load(root)
        loaded.decoder()
        ChatTemplate.of_root(root).check()
        GenerativeCodec.of_root(root).prompts.encode_text("a text")
        config = loaded.config
    else:
        config = DecoderRootConfig.from_json(read_artifact_json(root / DECODER_FILE))
    if not payload["hplm"]:
        return {}
    hplm = GenerativeHplm.load(Path(payload["hplm"]), config.architecture)
    return {"task": hplm.task, "pairs": False}


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
