"""Validates imported artifacts of decoder roots and generative models by loading them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.root import DecoderRoot, DecoderRootConfig
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
