"""The ways to generate with one decoder for many tenants that HMI is compared with, and libraries that serve
one model, each as its documentation says.

Run in environments of their own (`generator_program`): of our packages this imports none, and of others only
what a way needs.
"""

import importlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

PROJECTIONS: Final = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SEED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSettings:
    """A way (one of GENERATORS), and what it generates: `rows` completions together behind prompts of so many
    random tokens.

    config: of the LLaMA decoder of transformers, whose weights are random. checkpoint: the GGUF file that the
    libraries for one model read instead. rank: of the LoRAs, one for each row, on all projections. steps: the
    most that will be asked for in all.
    """

    way: str
    rows: int
    prompt: int
    steps: int
    vocab: int
    rank: int = 16
    config: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str = ""
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


class OpenVino:
    """openvino-genai: continuous batching of one model, from a GGUF file. A call reads the prompts, too."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._genai: Any = importlib.import_module("openvino_genai")
        openvino: Any = importlib.import_module("openvino")
        numpy: Any = importlib.import_module("numpy")
        scheduling = self._genai.SchedulerConfig()
        scheduling.max_num_seqs = settings.rows
        scheduling.cache_size = 1
        self._pipeline = self._genai.ContinuousBatchingPipeline(
            settings.checkpoint, scheduling, "CPU", {"INFERENCE_NUM_THREADS": settings.threads}
        )
        self._ids = [openvino.Tensor(numpy.array([ids], dtype=numpy.int64)) for ids in settings.prompts()]

    def run(self, steps: int) -> int:
        asked = self._genai.GenerationConfig(max_new_tokens=steps, ignore_eos=True, do_sample=False)
        found = self._pipeline.generate(self._ids, [asked] * len(self._ids))
        return sum(len(row.m_generation_ids[0]) for row in found)


class LlamaCpp:
    """xllamacpp: the server of llama.cpp in this process, one model, from a GGUF file. A call reads the
    prompts as well."""

    def __init__(self, settings: GeneratorSettings) -> None:
        xllamacpp: Any = importlib.import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = settings.checkpoint
        params.n_parallel = settings.rows
        params.n_ctx = settings.rows * (settings.prompt + settings.steps + 2)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
        params.cont_batching = True
        self._server = xllamacpp.Server(params)
        self._prompts = settings.prompts()

    def run(self, steps: int) -> int:
        asked = {
            "prompt": self._prompts,
            "max_tokens": steps,
            "temperature": 0.0,
            "ignore_eos": True,
            "cache_prompt": False,
        }
        answer = self._server.handle_completions(asked)
        if "choices" not in answer:
            raise RuntimeError(json.dumps(answer)[:300])
        tokens: int = answer["usage"]["completion_tokens"]  # of one completion
        return tokens * len(answer["choices"])


GENERATORS: Final[Mapping[str, Callable[[GeneratorSettings], Generator]]] = {
    "peft-mixed": PeftMixed,
    "peft-loop": PeftLoop,
    "openvino-genai": OpenVino,
    "xllamacpp": LlamaCpp,
}
PACKAGES: Final[Sequence[str]] = ("torch", "transformers", "peft", "openvino-genai", "xllamacpp")
