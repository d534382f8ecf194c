"""Evaluate a generative model on a test split, and keep its answers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from workers.training.datasets import DatasetFiles
from workers.training.evaluation_answers import write_answers
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.generation import generate_answers, prompts_of_test
from workers.training.generative.metrics import generation_metrics, text_scores
from workers.training.generative.rows import read_rows
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.progress import Reporter


def evaluate_generative(
    *,
    decoder: Decoder,
    tokenizer: GenerativeTokenizer,
    lora: DecoderLora,
    dataset: DatasetFiles,
    task: str,
    settings: GenerativeSettings,
    reporter: Reporter,
    out: Path | None = None,
) -> dict[str, Any]:
    """The metrics of greedy answers to the prompts of dataset.test.

    task: "generation" or "chat". Of the settings, those of the answers count. out: a new folder for the
    answers, each to the first row that has its prompt. Raises HplmError:
    malformed_row, too_few_rows, inference_failed.
    """
    context = min(tokenizer.max_tokens, decoder.architecture.positions)
    tokenizer = replace(tokenizer, max_tokens=min(settings.max_tokens, context))
    test = read_rows(dataset.test, task)
    prompts = prompts_of_test(test, tokenizer, settings.test_prompts, reporter)
    answers = generate_answers(
        prompts, tokenizer, decoder, lora, context=context, max_tokens=settings.new_tokens, reporter=reporter
    )
    references, texts = [answer.references for answer in answers], [answer.text for answer in answers]
    scores = text_scores(references, texts)
    if out is not None:
        evaluated = {one.row: one.evaluated(score) for one, score in zip(answers, scores, strict=True)}
        rows = [evaluated.get(row) for row in range(len(test))]
        write_answers(out, task=task, file=dataset.test, evaluated=rows)
    train = [row.reference for row in read_rows(dataset.train, task)]
    metrics = generation_metrics(references, texts, train=train, scores=scores)
    return {**metrics, "rows": len(test), "answers": len(answers)}
