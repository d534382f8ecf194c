"""`hmi generate`: continue a text."""

import sys
from typing import Annotated

import typer

from hmi_client.cli.completion_stream import COMPLETIONS_PATH, CompletionStream
from hmi_client.cli.output import AsJson, print_json, write_text
from hmi_client.cli.profiles import client_of
from hmi_client.cli.sampling import MaxTokens, Seed, Stop, Temperature, TopP
from hmi_client.cli.text_input import STDIN, read_text


def generate(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A generative model, optionally with @alias or :version.")],
    prompt: Annotated[
        str, typer.Argument(help="The text to continue; - is stdin, without its final line end.")
    ] = str(STDIN),
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    seed: Seed = None,
    stop: Stop = None,
    as_json: AsJson = False,
) -> None:
    """Continue a text, and stream the result. With --json, prints one line at the
    end: {"text", "finish_reason", "model", "usage"}."""
    text = read_text(STDIN) if prompt == str(STDIN) else prompt
    sampling = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    with client_of(context) as client:
        body = {"model": model, "prompt": text, **sampling, "stop": stop or None}
        completion = CompletionStream(client, COMPLETIONS_PATH, body)
        if as_json:
            written = {"text": "".join(completion), "finish_reason": completion.finish_reason}
            print_json({**written, "model": completion.model, "usage": completion.usage})
            return
        for piece in completion:
            write_text(piece)
        sys.stdout.write("\n")
