"""Convert a checkpoint to a root: train a lower half that sees only fragments (paper section 3.1)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.errors import HplmError
from inference.hplm.checkpoint import Checkpoint, checkpoint_folder, open_checkpoint
from inference.hplm.checkpoint_heads import checkpoint_hplm
from inference.hplm.root import Root
from workers.training.checkpoints import CheckpointStore
from workers.training.conversion import Conversion, ConvertSettings
from workers.training.corpus import CorpusReader, read_corpus
from workers.training.disk import atomic_folders
from workers.training.multi_gpu import run_on_all_gpus
from workers.training.precision import configure_torch
from workers.training.progress import Reporter
from workers.training.training_corpus import TrainingCorpus, write_general_text


def convert_root(
    *,
    checkpoint: str,
    corpus: Path,
    out_root: Path,
    out_lower: Path,
    settings: ConvertSettings,
    reporter: Reporter,
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    """Write a root and its local lower half; report the variance left unexplained on held-out text.

    The upper layers stay as they are. Uses all visible GPUs. Raises HplmError, and writes nothing, for an
    unsuitable checkpoint or corpus and for a loss that is not finite.
    """
    return run_on_all_gpus(
        convert_in_process,
        device=settings.device,
        outputs=("out_root", "out_lower"),
        reporter=reporter,
        checkpoints=checkpoints,
        checkpoint=checkpoint,
        corpus=corpus,
        out_root=out_root,
        out_lower=out_lower,
        settings=settings,
    )


def copy_root(
    checkpoint: str, out_root: Path, settings: ConvertSettings, reporter: Reporter
) -> dict[str, Any]:
    """Write a root of the checkpoint as it is, split at the cut of the settings, without local lower layers:
    every text is computed in full. Raises HplmError, and writes nothing, for an unsuitable checkpoint."""
    reporter.start_stage("open checkpoint", 1)
    source = open_checkpoint(checkpoint)
    root = _split(source, settings)
    root.config = replace(root.config, tables=False)
    with atomic_folders(out_root):
        root.save(out_root)
    reporter.report(1)
    return {"family": root.config.family, "layers": root.config.layers, "hidden": root.config.hidden}


def copy_task_head(checkpoint: str, out: Path, settings: ConvertSettings, *, pairs: bool) -> dict[str, Any]:
    """Write the model of the checkpoint's task head. Returns its task, labels, and whether it reads pairs.

    Raises HplmError(unsupported_checkpoint) if there is none, or one that cannot be served.
    """
    folder = checkpoint_folder(checkpoint)
    hplm = checkpoint_hplm(folder, settings.layers_below_cut, pairs=pairs)
    if hplm is None:
        message = "the checkpoint has no task head, and no modules.json that says how it embeds texts"
        raise HplmError("unsupported_checkpoint", message)
    hplm.save(out)
    return {"task": hplm.task, "labels": list(hplm.labels), "pairs": hplm.pairs}


def _split(source: Checkpoint, settings: ConvertSettings) -> Root:
    """The root of a checkpoint, cut as the settings say."""
    return Root.from_checkpoint(
        source,
        lower=settings.layers_below_cut(source.architecture.layers),
        max_tokens=settings.max_tokens,
        n=settings.n,
        name=settings.name,
    )


def convert_in_process(
    *,
    checkpoint: str,
    corpus: Path,
    out_root: Path,
    out_lower: Path,
    settings: ConvertSettings,
    reporter: Reporter,
    checkpoints: CheckpointStore | None,
) -> dict[str, Any]:
    """`convert_root` in this process, alone or as one of several."""
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
    reporter.start_stage("open checkpoint", 1)
    source = open_checkpoint(checkpoint)
    root = _split(source, settings)
    reader = CorpusReader(source.tokenizer_file, root.config)
    training = TrainingCorpus.split(
        read_corpus(corpus, reporter.raise_if_cancelled),
        reader,
        held_out_share=settings.held_out_share,
        batch_tokens=settings.batch_tokens,
        seed=settings.seed,
        check=reporter.raise_if_cancelled,
    )
    conversion = Conversion(root, training, settings, precision, reporter, checkpoints or CheckpointStore())
    reporter.report(1)
    report = conversion.run()
    root.config = replace(root.config, ladder=conversion.ladder)
    with atomic_folders(out_root, out_lower):
        root.save(out_root, report)
        write_general_text(out_root, training.held_out_batches(settings.general_tokens))
        conversion.local.cpu().save(out_lower, report)
    return report
