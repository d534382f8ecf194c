"""Converts a PEFT folder to a generative model, and back."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from inference.decoder.generative_hplm import GenerativeHplm
from inference.decoder.lora import DecoderLora
from inference.decoder.peft_lora import read_peft_lora, write_peft_lora
from inference.decoder.root import CHAT_TEMPLATE_FILE, DecoderRootConfig
from inference.errors import HplmError
from inference.hplm.adapter_io.adapter_folder import UNSUPPORTED, read_adapter_json, unsupported_adapter
from inference.hplm.adapter_io.adapter_import import check_not_pickled
from inference.hplm.adapter_io.peft_config import CONFIG_FILE
from inference.hplm.artifact_files import read_artifact_json
from inference.text.tasks import CHAT, GENERATION
from inference.text.tokenization import DECODER_FILE

PEFT: Final = "peft"
LOADING: Final = """\
This folder contains a LoRA adapter for `{base}`. Load it with:

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{base}")
base = AutoModelForCausalLM.from_pretrained("{base}")
model = PeftModel.from_pretrained(base, "path/to/this/folder")
prompt = tokenizer("A prompt", return_tensors="pt")
print(tokenizer.decode(model.generate(**prompt, max_new_tokens=50)[0]))
```"""
"""How to load an export."""


def generative_adapter_import(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the PEFT folder `adapter` for the decoder in the folder `root`, and write the generative model
    into the folder `out`, float32.

    `task`: "generation", "chat", or "" for chat if the root has a chat template, else generation. Returns
    what `inference.hplm.adapter_io.adapter_import` returns. Raises HplmError(invalid_archive) if that is
    impossible.
    """
    root, folder = Path(payload["root"]), Path(payload["adapter"])
    check_not_pickled(folder)
    if "peft_type" not in read_adapter_json(folder / CONFIG_FILE):
        raise unsupported_adapter(
            f"{CONFIG_FILE} has no peft_type. For a decoder root, only LoRA adapters that PEFT saved can be "
            "imported"
        )
    config = DecoderRootConfig.from_json(read_artifact_json(root / DECODER_FILE))
    imported = read_peft_lora(folder, config.architecture)
    task = _task(payload["task"], has_template=(root / CHAT_TEMPLATE_FILE).is_file())
    GenerativeHplm(task, imported.lora).save(Path(payload["out"]), config.architecture)
    return {
        "task": task,
        "labels": [],
        "pairs": False,
        "pet": {"lora": max(factor.rank for factor in imported.lora.layout.factors)},
        "dropped": [],
        "below_cut": imported.lora.lowest_layer < config.lower_layers,
        "about": {**imported.about, **_shape(imported.lora)},
    }


def generative_adapter_export(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Write the generative model in the folder `hplm`, of the decoder in the folder `root`, as a PEFT folder
    `out`, float32. `base`: the hub id of the decoder's checkpoint, or the root's name.

    Returns {"read": how to load it}, or {"refused": why the format does not support it}.
    """
    if payload["format"] != PEFT:
        return {
            "refused": "this format does not support generative models. Use the peft format, or archive if "
            "the model has bottleneck adapters"
        }
    config = DecoderRootConfig.from_json(read_artifact_json(Path(payload["root"]) / DECODER_FILE))
    hplm = GenerativeHplm.load(Path(payload["hplm"]), config.architecture)
    base = payload["base"] or config.name
    try:
        write_peft_lora(hplm.lora, config.architecture, base, Path(payload["out"]))
    except HplmError as error:
        if error.code != UNSUPPORTED:
            raise
        return {"refused": error.message}
    return {"read": LOADING.format(base=base)}


def _task(asked: str, *, has_template: bool) -> str:
    if asked == CHAT and not has_template:
        raise unsupported_adapter(
            "the root has no chat template, so the task cannot be chat. Set the task to generation"
        )
    return asked or (CHAT if has_template else GENERATION)


def _shape(lora: DecoderLora) -> dict[str, str]:
    """The projections, ranks and layers of a LoRA, as text."""
    factors = lora.layout.factors
    ranks, layers = ({getattr(factor, name) for factor in factors} for name in ("rank", "layer"))
    return {
        "projections": ", ".join(dict.fromkeys(factor.projection for factor in factors)),
        "ranks": _range(ranks),
        "layers": _range(layers),
    }


def _range(numbers: set[int]) -> str:
    least, most = min(numbers), max(numbers)
    return str(least) if least == most else f"{least} to {most}"
