"""Evaluate a generative model on a test split."""

from dataclasses import replace
from typing import Any

from inference.decoder.decoder import Decoder
from inference.decoder.lora import DecoderLora
from workers.training.datasets import DatasetFiles
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.generation import generate_answers, prompts_of_test
from workers.training.generative.metrics import generation_metrics
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
) -> dict[str, Any]:
    """The metrics of greedy answers to the prompts of dataset.test, and some of the answers.

    task: "generation" or "chat". Of the settings, those of the answers count. Raises HplmError:
    malformed_row, too_few_rows, inference_failed.
    """
    context = min(tokenizer.max_tokens, decoder.architecture.positions)
    tokenizer = replace(tokenizer, max_tokens=min(settings.max_tokens, context))
    test = read_rows(dataset.test, task)
    prompts = prompts_of_test(test, tokenizer, settings.test_prompts, reporter)
    answers = generate_answers(
        prompts, tokenizer, decoder, lora, context=context, max_tokens=settings.new_tokens, reporter=reporter
    )
    metrics = generation_metrics(
        [answer.references for answer in answers],
        [answer.text for answer in answers],
        train=[row.reference for row in read_rows(dataset.train, task)],
    )
    return {
        **metrics,
        "rows": len(test),
        "answers": len(answers),
        "samples": [answer.to_json() for answer in answers[: settings.samples]],
    }
