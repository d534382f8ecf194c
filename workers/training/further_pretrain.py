"""Further-pretrain a domain: its lower half learns the domain's language (paper sections 3.1 and 5.1)."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from inference.hplm.lm_head import LmHead
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import LM_HEAD_FILE, TOKENIZER_FILE, Root
from workers.training.corpus import CorpusReader, Ids, read_corpus
from workers.training.distil import squared_error
from workers.training.language_model import LanguageModel, new_head
from workers.training.masking import masked_batch
from workers.training.optimise import Optimiser
from workers.training.precision import arithmetic
from workers.training.progress import Reporter
from workers.training.states import Teacher
from workers.training.texts import TrainingTexts
from workers.training.tidy import written_whole
from workers.training.unexplained import Spread, measure

BATCHES_FOR_VARIANCE = 8
WARMUP_STEPS = 10
LEVELS = ("trigram", "unigram")


@dataclass(frozen=True, kw_only=True)
class FurtherPretrainSettings:
    """Budgets are in tokens. head_tokens: to fit a language model head with, where there is none yet.

    likeness: weight of the normalised squared error at the cut against the original lower layers, beside the
    language model loss; it keeps the states such as the shared upper layers, and the root's rows, expect
    them.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    head_tokens: int = 60_000
    head_passes: int = 5
    tokens: int = 80_000
    held_out_tokens: int = 6_000
    held_out_share: float = 0.03
    batch_tokens: int = 1_280
    head_learning_rate: float = 2e-3
    learning_rate: float = 2e-4
    likeness: float = 6.0


def further_pretrain(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    settings: FurtherPretrainSettings,
    reporter: Reporter,
) -> dict[str, Any]:
    """Write the domain's lower half to `out`; report the language model loss on held-out text before and
    after.

    Only the lower layers, their embeddings and maps learn. The bias of positions does not: a text's rows
    come from the tables of the domain and of the root together, and are summed with one bias. A head that
    had to be fitted is kept beside the lower half, for the domain's next update.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    loaded = Root.load(root, computing.device)
    full = loaded.checkpoint_lower()
    texts = TrainingTexts.split(
        read_corpus(corpus),
        CorpusReader(root / TOKENIZER_FILE, loaded.config),
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
    )
    known = _known_head(loaded, lower)
    head_groups = texts.to_learn(settings.head_tokens, stage=1) if known is None else []
    model = LanguageModel(
        local=LocalLower.load(lower, computing.device),
        teacher=Teacher(full, loaded.upper, computing),
        head=(known or new_head(loaded, head_groups)).to(computing.device),
        words=full.word_embeddings.detach(),
        config=loaded.config,
    )
    if known is None:
        model.fit_head(
            head_groups,
            learning_rate=settings.head_learning_rate,
            passes=settings.head_passes,
            seed=settings.seed,
            reporter=reporter,
        )
    report = _learn(model, texts, settings, reporter) | {"head_fitted": known is None}
    with written_whole(out):
        model.local.cpu().save(out, report)
        if loaded.lm_head() is None:
            model.head.save(out / LM_HEAD_FILE)
    return report


def _known_head(root: Root, lower: Path) -> LmHead | None:
    """The root's own head, or the one an earlier further pretraining of this branch fitted."""
    own = root.lm_head()
    if own is None and (lower / LM_HEAD_FILE).is_file():
        own = LmHead.load(lower / LM_HEAD_FILE, root.config.architecture, root.upper.device)
    return own.requires_grad_(False) if own is not None else None


def _learn(
    model: LanguageModel, texts: TrainingTexts, settings: FurtherPretrainSettings, reporter: Reporter
) -> dict[str, Any]:
    held_out = texts.held_out(settings.held_out_tokens)

    def measured() -> dict[str, Any]:
        loss = model.held_out_loss(held_out, settings.seed, reporter)
        computing = model.teacher.arithmetic
        unexplained = measure(
            model.local, model.teacher, held_out, model.config, computing, reporter, levels=LEVELS
        )
        return {"mlm_loss": round(loss, 4), "unexplained": unexplained}

    before = measured()
    _train(model, texts.to_learn(settings.tokens, stage=2), settings, reporter)
    return {"settings": asdict(settings), "before": before, "after": measured()}


def _train(
    model: LanguageModel, groups: list[list[Ids]], settings: FurtherPretrainSettings, reporter: Reporter
) -> None:
    variance = _variance(model, groups[:BATCHES_FOR_VARIANCE], settings.seed, reporter)
    rng = np.random.default_rng(settings.seed + 2)
    model.local.requires_grad_(True)
    for shared in model.local.composition.tensors().values():
        shared.requires_grad_(False)
    learning = [parameter for parameter in model.local.parameters() if parameter.requires_grad]
    optimiser = Optimiser(
        [{"params": learning, "lr": settings.learning_rate}], steps=len(groups), warmup=WARMUP_STEPS
    )
    reporter.stage("further pretrain", len(groups))
    for done, sequences in enumerate(groups, start=1):
        reporter.check()
        masked = masked_batch(sequences, model.config, rng)
        states = model.states(masked, rng)
        language = model.loss(masked, states)
        likeness = squared_error(states, model.teacher.at_cut(masked.batch), masked.batch, variance)
        optimiser.step(language + settings.likeness * likeness)
        reporter.advance(done, loss=float(language.detach()), unlikeness=float(likeness.detach()))
    model.local.requires_grad_(False)


@torch.no_grad()
def _variance(model: LanguageModel, groups: list[list[Ids]], seed: int, reporter: Reporter) -> float:
    spread, rng = Spread(), np.random.default_rng(seed)
    for sequences in groups:
        reporter.check()
        batch = masked_batch(sequences, model.config, rng).batch
        states = model.teacher.at_cut(batch)
        spread.add(states[batch.mask.to(states.device)])
    return spread.variance
