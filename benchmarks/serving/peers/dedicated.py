"""A server as a user of transformers would write it: FastAPI, and for each tenant a whole fine-tuned model,
or a LoRA of PEFT.

`python -m benchmarks.serving.peers.dedicated SETTINGS` (JSON) listens on a free port, says {"url": …} once
every model is warm, and ends when its input does. Calls are the product's: POST /api/v1/infer with
{"model": "tenant-3/model", "inputs": ["a text"]}. Run in an environment of its own: of our packages this
imports none.
"""

import asyncio
import importlib
import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import torch
import transformers
from torch import Tensor

BATCH: Final = 32
LONGEST: Final = 512
WARM_UPS: Final = ("A text.", "Another text, which is a little longer than the first.")
Answer = dict[str, Any]
Asked = tuple[str, str, "asyncio.Future[Answer]"]
"""A model's name, a text for it, and its answer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """checkpoint: the folder with config.json and tokenizer.json. names: of the models. threads: of
    PyTorch. rank: of PEFT's LoRA for each model, on the maps that PEFT takes for BERT by itself; 0: whole
    models."""

    checkpoint: str
    names: Sequence[str]
    dtype: str
    threads: int
    device: str = "cpu"
    labels: int = 3
    rank: int = 0


class Models:
    """Classifiers of the checkpoint's shape with random weights, one for each name, all in memory: whole
    models, which compute one after the other. For `MixedModels` see below."""

    mixed = False

    def __init__(self, settings: Settings) -> None:
        folder = Path(settings.checkpoint)
        self.names = list(settings.names)
        self._device, self._labels = settings.device, settings.labels
        special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
        fast: Any = transformers.PreTrainedTokenizerFast
        self._tokenizer = fast(tokenizer_file=str(folder / "tokenizer.json"), **special)
        self._load(transformers.BertConfig.from_pretrained(folder, num_labels=settings.labels), settings)

    @torch.inference_mode()
    def answer(self, names: Sequence[str], texts: Sequence[str]) -> list[Answer]:
        """The label of each text by the model beside it and its score, in batches of at most BATCH texts of
        similar length, padded. Whole models answer texts of one name. Raises KeyError for an unknown name."""
        read = self._tokenizer(list(texts), truncation=True, max_length=LONGEST)
        order = sorted(range(len(texts)), key=lambda at: len(read["input_ids"][at]))
        found: list[Answer] = [{}] * len(texts)
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            batch = {key: [values[at] for at in some] for key, values in read.items()}
            padded = self._tokenizer.pad(batch, return_tensors="pt").to(self._device)
            logits = self._compute([names[at] for at in some], padded)
            scores, labels = logits.float().softmax(-1).max(-1)
            for at, score, label in zip(some, scores.tolist(), labels.tolist(), strict=True):
                found[at] = {"label": f"LABEL_{label}", "score": score}
        return found

    def warm_up(self) -> None:
        """Compute with every model, alone and in a full batch."""
        for name in self.names:
            self.answer([name], WARM_UPS[:1])
            self.answer([name] * BATCH, WARM_UPS * (BATCH // len(WARM_UPS)))

    def _load(self, config: Any, settings: Settings) -> None:
        self._models = {
            name: self._build("SequenceClassification", config, settings, seed)
            for seed, name in enumerate(settings.names)
        }

    def _compute(self, names: Sequence[str], padded: Any) -> Tensor:
        logits: Tensor = self._models[names[0]](**padded).logits
        return logits

    def _build(self, kind: str, config: Any, settings: Settings, seed: int) -> Any:
        torch.manual_seed(seed)
        auto: Any = getattr(transformers, "AutoModel" + (kind and f"For{kind}"))
        model = auto.from_config(config, attn_implementation="sdpa")
        return model.to(device=settings.device, dtype=getattr(torch, settings.dtype)).eval()


class MixedModels(Models):
    """The same by one encoder, a LoRA of PEFT and a head for each name: a batch mixes models, by
    `adapter_names`."""

    mixed = True

    def _load(self, config: Any, settings: Settings) -> None:
        peft: Any = importlib.import_module("peft")
        lora = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.rank,
            target_modules=["query", "value"],
            init_lora_weights=False,
        )
        encoder = self._build("", config, settings, seed=0)
        self._places = {name: at for at, name in enumerate(settings.names)}
        self._model = peft.get_peft_model(encoder, lora, adapter_name="0")
        for at in range(1, len(self._places)):
            self._model.add_adapter(str(at), lora)
        dtype = getattr(torch, settings.dtype)  # PEFT keeps adapters in float32 unless told otherwise
        self._model = self._model.to(device=settings.device, dtype=dtype).eval()
        self._heads = torch.randn(len(self._places), settings.labels, config.hidden_size, dtype=dtype)
        self._heads = self._heads.to(settings.device)

    def _compute(self, names: Sequence[str], padded: Any) -> Tensor:
        places = [self._places[name] for name in names]
        states = self._model(**padded, adapter_names=[str(at) for at in places]).last_hidden_state
        logits: Tensor = (self._heads[places] @ states[:, 0, :, None])[..., 0]
        return logits


class Batcher:
    """Computes in one thread, one model at a time: all texts that wait for the one that was asked first;
    mixed models all that wait."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._waiting: dict[str, list[Asked]] = {}
        self._thread = ThreadPoolExecutor(1)
        self._running: asyncio.Task[None] | None = None

    async def ask(self, name: str, texts: Sequence[str]) -> list[Answer]:
        """The answers to the texts. Raises what computing them raised."""
        loop = asyncio.get_running_loop()
        asked: list[Asked] = [(name, text, loop.create_future()) for text in texts]
        self._waiting.setdefault("" if self._models.mixed else name, []).extend(asked)
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run())
        return list(await asyncio.gather(*(future for *_, future in asked)))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            asked = self._waiting.pop(next(iter(self._waiting)))
            names, texts = [name for name, *_ in asked], [text for _, text, _ in asked]
            try:
                answers = await loop.run_in_executor(self._thread, self._models.answer, names, texts)
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                self._settle(asked, [error] * len(asked))
            else:
                self._settle(asked, answers)

    def _settle(self, asked: Sequence[Asked], results: Sequence[Answer | Exception]) -> None:
        for (*_, future), result in zip(asked, results, strict=True):
            if future.done():  # who asked has left
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def application(batcher: Batcher) -> Any:
    """The FastAPI application."""
    import fastapi

    app = fastapi.FastAPI()

    async def infer(
        model: Annotated[str, fastapi.Body()], inputs: Annotated[list[str], fastapi.Body()]
    ) -> dict[str, Any]:
        try:
            return {"model": model, "predictions": await batcher.ask(model, inputs)}
        except KeyError:
            raise fastapi.HTTPException(404, f"There is no model {model}.") from None

    app.post("/api/v1/infer")(infer)
    return app


def main() -> int:
    """Serve until the input ends."""
    settings = Settings(**json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print goes to stderr
    torch.set_num_threads(settings.threads)
    models = MixedModels(settings) if settings.rank else Models(settings)
    models.warm_up()
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = uvicorn.Server(uvicorn.Config(application(Batcher(models)), log_level="warning"))
    threading.Thread(target=_stop_with_input, args=(server,), daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), file=answers, flush=True)
    server.run(sockets=[listener])
    return 0


def _stop_with_input(server: Any) -> None:
    sys.stdin.read()
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
