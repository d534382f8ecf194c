"""`hmi generate`: continue a text."""

import sys
from typing import Annotated, Any

import typer

from hmi_client.cli.output import AsJson, print_json, write_text
from hmi_client.cli.profiles import client_of
from hmi_client.cli.sampling import MaxTokens, Seed, Stop, Temperature, TopP
from hmi_client.cli.text_input import STDIN, read_text
from hmi_client.client import Client


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
        write = _print_json if as_json else _print_text
        write(client, model, text, {**sampling, "stop": stop or None})


def _print_json(client: Client, model: str, prompt: str, sampling: dict[str, Any]) -> None:
    completion = client.complete(model, prompt, **sampling)
    (choice,) = completion.choices
    told = {"text": choice.text, "finish_reason": choice.finish_reason}
    print_json({**told, "model": completion.model, "usage": completion.usage})


def _print_text(client: Client, model: str, prompt: str, sampling: dict[str, Any]) -> None:
    for delta in client.stream_completion(model, prompt, **sampling):
        write_text(delta.text)
    sys.stdout.write("\n")
