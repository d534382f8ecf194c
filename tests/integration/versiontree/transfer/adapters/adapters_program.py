"""What people do with `adapters` elsewhere; runs in the environment of `benchmarks.serving.peers`.

Each line it is sent is a list in JSON: what to do, a checkpoint, a folder and settings. `train` saves an
adapter of random weights in the folder; `load` loads the one that is there. Both write `answers.safetensors`
beside it (`ids`, and the `logits` that the model gives for them) and print a line `DONE`, or `FAILED` with
the reason on stderr.
"""

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def train(checkpoint: str, out: Path, settings: dict[str, Any]) -> Any:
    adapters: Any = importlib.import_module("adapters")

    torch.manual_seed(2)
    model = adapters.AutoAdapterModel.from_pretrained(checkpoint)
    model.add_adapter("sentiment", adapters.BnConfig(**settings["config"]))
    getattr(model, f"add_{settings['head']}_head")("sentiment", **settings["with"])
    model.set_active_adapters("sentiment")
    model.train_adapter("sentiment")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_adapter(str(out), "sentiment", with_head=True, use_safetensors=True)
    return model


def load(checkpoint: str, adapter: Path, _settings: dict[str, Any]) -> Any:
    adapters: Any = importlib.import_module("adapters")

    model = adapters.AutoAdapterModel.from_pretrained(checkpoint)
    name = model.load_adapter(str(adapter), use_safetensors=True, set_active=True)
    model.active_head = name
    return model


COMMANDS = {"train": train, "load": load}


def answer(command: str, checkpoint: str, folder: str, settings: dict[str, Any]) -> None:
    model: Any = COMMANDS[command](checkpoint, Path(folder), settings).eval()
    torch.manual_seed(3)
    ids = torch.randint(6, 100, (4, 11))
    with torch.no_grad():
        said = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    logits = said.logits if hasattr(said, "logits") else torch.stack([said.start_logits, said.end_logits], -1)
    save_file({"ids": ids, "logits": logits.contiguous()}, f"{folder}.answers.safetensors")


def main() -> None:
    for line in sys.stdin:
        try:
            answer(*json.loads(line))
            said = "DONE"
        except Exception:  # noqa: BLE001 - whatever a library raises is the test's to show
            traceback.print_exc()
            said = "FAILED"
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
