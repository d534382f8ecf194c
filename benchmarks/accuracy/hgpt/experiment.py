"""The cells of the benchmark: each is measured once, and found again when the benchmark is run again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from rich.console import Console

from benchmarks.accuracy.hgpt.conversion import Distillation, distil, fit_closed_form
from benchmarks.accuracy.hgpt.corpus import DomainCorpus, generated_texts
from benchmarks.accuracy.hgpt.data_to_text import DataToText, DataToTextSettings
from benchmarks.accuracy.hgpt.lower_layers import LocalLowerLayers
from benchmarks.accuracy.hgpt.metrics import perplexity, prefill_seconds
from benchmarks.accuracy.hgpt.root import HgptRoot
from benchmarks.accuracy.hgpt.table import FragmentTable, shares
from benchmarks.accuracy.hgpt.texts import Texts
from benchmarks.accuracy.reporters import ConsoleReporter
from benchmarks.result_cache import KeptResults, cache_folder

Conversion = Literal["unconverted", "closed form", "distilled"]
CONVERSIONS: Final[tuple[Conversion, ...]] = ("unconverted", "closed form", "distilled")
ROOT_NAME: Final = "SmolLM2-135M-Instruct"
CODE: Final = ("benchmarks/accuracy/hgpt", "inference/decoder", "workers/training/generative")
RECIPE: Final = 1
"""Goes up when figures would change for the same settings."""


@dataclass(frozen=True, kw_only=True)
class HgptSettings:
    """corpus: whose text is read. fit_tokens: that conversions learn from. generated_tokens: of text by the
    root, which distillation reads beside these. held_out_tokens: that perplexity is measured on."""

    corpus: str
    fit_tokens: int
    generated_tokens: int
    held_out_tokens: int
    distillation: Distillation
    data_to_text: DataToTextSettings
    prefill_repeats: int
    seed: int = 0


class Experiment:
    """What is measured, with what it is measured on. Everything is made when it is first needed."""

    def __init__(
        self,
        settings: HgptSettings,
        console: Console,
        checkpoint: Path | None = None,
        *,
        quick: bool = False,
        committed: bool = False,
    ) -> None:
        """checkpoint: of the root (None: SmolLM2's). quick, committed: see `KeptResults`."""
        self.settings, self._checkpoint = settings, checkpoint
        self.reporter = ConsoleReporter(console)
        self.kept = KeptResults("hgpt", console, code=CODE, quick=quick, committed=committed)
        self._converted: dict[tuple[Conversion, int, int], LocalLowerLayers] = {}
        self._with_shorter: dict[tuple[Conversion, int, int], LocalLowerLayers] = {}

    @cached_property
    def root(self) -> HgptRoot:
        """The root."""
        return HgptRoot.load(self._checkpoint)

    @cached_property
    def domain(self) -> DomainCorpus:
        """The corpus."""
        return DomainCorpus(self.settings.corpus, self.root.tokenizer, self.settings.seed)

    @cached_property
    def fit_texts(self) -> Texts:
        """What conversions learn from."""
        return self.domain.fit_texts(self.settings.fit_tokens)

    @cached_property
    def held_out(self) -> Texts:
        """What perplexity is measured on."""
        return self.domain.held_out_texts(self.settings.held_out_tokens)

    def cell(self, what: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of this cell; the kept one if it is there."""
        key = {**what, **self._of_all, "held_out_tokens": self.settings.held_out_tokens}
        return self.kept.get_or_compute(key, compute)

    @property
    def _of_all(self) -> dict[str, Any]:
        """What all figures depend on."""
        root = str(self._checkpoint or ROOT_NAME)
        return {"recipe": RECIPE, "root": root, "corpus": self.settings.corpus, "seed": self.settings.seed}

    def of_conversion(self, conversion: Conversion, layers: int, n: int) -> dict[str, Any]:
        """What the figures of a conversion depend on."""
        settings, key = self.settings, {"conversion": conversion, "layers": layers, "n": n}
        if conversion == "unconverted":
            return key
        key["fit_tokens"] = settings.fit_tokens
        if conversion == "closed form":
            return key
        distillation = asdict(settings.distillation)
        return {**key, "generated_tokens": settings.generated_tokens, "distillation": distillation}

    def root_perplexity(self) -> dict[str, Any]:
        """With all layers computed."""

        def measure() -> dict[str, Any]:
            decoder = self.root.decoder
            return perplexity(
                decoder, self.held_out, 0, lambda texts: decoder.embed(texts.token_ids, texts.positions)
            )

        return self.cell({"what": "root"}, measure)

    def local_perplexity(self, conversion: Conversion, layers: int, n: int) -> dict[str, Any]:
        """With the lowest `layers` layers read from complete fragments of n tokens."""

        def measure() -> dict[str, Any]:
            local = self.converted(conversion, layers, n)
            return perplexity(self.root.decoder, self.held_out, layers, local.states)

        return self.cell({"what": "local", **self.of_conversion(conversion, layers, n)}, measure)

    def table_perplexity(
        self, conversion: Conversion, layers: int, n: int, coverage: float
    ) -> dict[str, Any]:
        """With the lowest `layers` layers looked up: what the table lacks falls back to shorter fragments,
        which have maps of their own."""

        def measure() -> dict[str, Any]:
            decoder, held_out = self.root.decoder, self.held_out
            vocab = decoder.architecture.vocab
            table = FragmentTable.of([self.domain.train], n, vocab, coverage)
            local = self.with_shorter(conversion, layers, n)
            found = perplexity(
                decoder, held_out, layers, lambda texts: local.states(texts, table.lengths(texts))
            )
            return {**found, "vectors": len(table), "lengths": _by_name(shares(table, held_out))}

        what = {"what": "table", "coverage": coverage, **self.of_conversion(conversion, layers, n)}
        return self.cell(what, measure)

    def prefill(self, lowers: Sequence[int]) -> dict[str, float]:
        """The share of a prefill's processor time that looking up so many layers saves: the median of the
        repeats."""

        def measure() -> dict[str, Any]:
            repeats = self.settings.prefill_repeats
            found = prefill_seconds(self.root.decoder, self.held_out, (0, *lowers), repeats)
            saved = {
                lower: median(1 - own / of_all for own, of_all in zip(seconds, found[0], strict=True))
                for lower, seconds in found.items()
            }
            return {"saved": _by_name(saved), "seconds_of_all": median(found[0])}

        saved: dict[str, float] = self.cell(
            {"what": "prefill", "lowers": list(lowers), "repeats": self.settings.prefill_repeats}, measure
        )["saved"]
        return saved

    def rouge_l(self, layers: int, n: int, conversion: Conversion | None) -> dict[str, Any]:
        """Of a LoRA that learned to write from facts, above the lowest `layers` layers.

        These are computed with full context (conversion None) or on fragments of n tokens.
        """
        settings = self.settings.data_to_text
        what: dict[str, Any] = {"what": "data_to_text", "layers": layers, "settings": asdict(settings)}
        if conversion is not None:
            what |= self.of_conversion(conversion, layers, n)

        def measure() -> dict[str, Any]:
            local = None if conversion is None else self.converted(conversion, layers, n)
            folder = cache_folder("hgpt-training", {**what, **self._of_all})
            return DataToText(self.root, settings, self.reporter).rouge_l(layers, local, folder)

        return self.cell(what, measure)

    def converted(self, conversion: Conversion, layers: int, n: int) -> LocalLowerLayers:
        """The converted lower layers; those that were distilled before are read from their file."""
        key = conversion, layers, n
        if key not in self._converted:
            self._converted[key] = self._convert(*key)
        return self._converted[key]

    def _convert(self, conversion: Conversion, layers: int, n: int) -> LocalLowerLayers:
        decoder = self.root.decoder
        if conversion == "unconverted":
            return LocalLowerLayers.unconverted(decoder, layers, n, self.root.begin)
        if conversion == "closed form":
            return fit_closed_form(self.converted("unconverted", layers, n), decoder, self.fit_texts)
        key = self.of_conversion(conversion, layers, n)
        file = cache_folder("hgpt", {**key, **self._of_all}).with_suffix(".safetensors")
        if file.is_file():
            return self.converted("unconverted", layers, n).loaded(file)
        texts = Texts((*self.fit_texts.ids, *self._generated.ids))
        local = distil(
            self.converted("closed form", layers, n), texts, self.settings.distillation, self.reporter
        )
        local.save(file)
        return local

    @cached_property
    def _generated(self) -> Texts:
        return generated_texts(self.root, self.domain, self.settings.generated_tokens, self.reporter)

    def with_shorter(self, conversion: Conversion, layers: int, n: int) -> LocalLowerLayers:
        """As `converted`, with maps for the shorter fragments of a table, too."""
        key = conversion, layers, n
        if conversion != "unconverted" and key not in self._with_shorter:
            local = self.converted(*key)
            self._with_shorter[key] = fit_closed_form(local, self.root.decoder, self.fit_texts, range(1, n))
        return self._with_shorter.get(key) or self.converted(*key)


def _by_name(values: Mapping[int, float]) -> dict[str, float]:
    """As JSON has it, so that a new result is like one from the cache."""
    return {str(number): value for number, value in values.items()}
