"""The options of commands that generate text."""

from typing import Annotated

import typer

MaxTokens = Annotated[int | None, typer.Option(min=1, help="Maximum tokens of the answer.")]
Temperature = Annotated[
    float | None, typer.Option(min=0, max=2, help="0: always pick the most likely token. Default: 1.")
]
TopP = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Sample from the most likely tokens with this total probability."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed gives the same answer.")]
Stop = Annotated[list[str] | None, typer.Option(help="Stop before this text. Repeatable.")]
