"""PEFT's two ways to generate with one decoder for many tenants, each as its documentation says.

`python -m benchmarks.serving.peers.generators SETTINGS` (`GeneratorSettings`, as JSON) answers {"steps": 3}
by {"tokens": 96, "cpu_seconds": 1.1, "seconds": 0.6}: see `json_lines`. Run in an environment of its own.
"""

import importlib
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from benchmarks.serving.peers.json_lines import serve, versions

PROJECTIONS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SEED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSettings:
    """A way (one of GENERATORS), and what it generates: `rows` completions together behind prompts of so many
    random tokens.

    config: of the LLaMA decoder of transformers, whose weights are random. rank: of the LoRAs, one for each
    row, on all projections.
    """

    way: str
    rows: int
    prompt: int
    vocab: int
    rank: int = 16
    config: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 1

    def prompts(self) -> list[list[int]]:
        """Token ids, a different prompt for each row."""
        draw = random.Random(SEED)  # noqa: S311 - no secret
        return [[draw.randrange(self.vocab) for _ in range(self.prompt)] for _ in range(self.rows)]


class Generator(Protocol):
    """Generates for all rows."""

    def run(self, steps: int) -> int:
        """Generate so many more tokens of each row; returns how many came about."""


class _Peft:
    """A decoder of transformers with a LoRA of PEFT for each row, and the key-value caches of the rows."""

    def __init__(self, settings: GeneratorSettings) -> None:
        torch, transformers, peft = map(importlib.import_module, ("torch", "transformers", "peft"))
        torch.set_num_threads(settings.threads)
        torch.manual_seed(SEED)
        self._torch: Any = torch
        base = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings.config))
        config = peft.LoraConfig(
            r=settings.rank,
            lora_alpha=settings.rank,
            target_modules=list(PROJECTIONS),
            init_lora_weights=False,
        )
        self._names = [f"tenant{row}" for row in range(settings.rows)]
        model = peft.get_peft_model(base, config, adapter_name=self._names[0])
        for name in self._names[1:]:
            model.add_adapter(name, config)
        self._model = model.to(device=settings.device, dtype=getattr(torch, settings.dtype)).eval()
        self._ids = torch.tensor(settings.prompts(), device=settings.device)

    def _next(self, ids: Any, cache: Any, **options: Any) -> tuple[Any, Any]:
        """The likeliest next token [rows, 1] of ids [rows, tokens], and the cache with these."""
        found = self._model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1, **options)
        return found.logits[:, -1:].argmax(-1), found.past_key_values


class PeftMixed(_Peft):
    """All rows in one batch, each with its own LoRA, by `adapter_names`."""

    def __init__(self, settings: GeneratorSettings) -> None:
        super().__init__(settings)
        self._cache: Any = None

    def run(self, steps: int) -> int:
        with self._torch.inference_mode():
            for _ in range(steps):
                self._ids, self._cache = self._next(self._ids, self._cache, adapter_names=self._names)
        return steps * len(self._names)


class PeftLoop(_Peft):
    """The rows of one LoRA after those of another; here every row has its own."""

    def __init__(self, settings: GeneratorSettings) -> None:
        super().__init__(settings)
        self._rows = [(ids[None], None) for ids in self._ids]

    def run(self, steps: int) -> int:
        with self._torch.inference_mode():
            for _ in range(steps):
                self._rows = [
                    self._alone(name, *row) for name, row in zip(self._names, self._rows, strict=True)
                ]
        return steps * len(self._names)

    def _alone(self, name: str, ids: Any, cache: Any) -> tuple[Any, Any]:
        self._model.set_adapter(name, inference_mode=True)
        return self._next(ids, cache)


GENERATORS: Final[Mapping[str, Callable[[GeneratorSettings], Generator]]] = {
    "peft-mixed": PeftMixed,
    "peft-loop": PeftLoop,
}
PACKAGES: Final[Sequence[str]] = ("torch", "transformers", "peft")


class Bench:
    """Generates, and returns the tokens and the time that it took."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._generator = GENERATORS[settings.way](settings)

    def ready(self) -> dict[str, Any]:
        """The versions of the packages."""
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
