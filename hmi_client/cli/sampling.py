"""The options of commands that generate text."""

from typing import Annotated

import typer

MaxTokens = Annotated[int | None, typer.Option(min=1, help="Tokens of the answer at most.")]
Temperature = Annotated[
    float | None, typer.Option(min=0, max=2, help="0 takes the likeliest token. Default: 1.")
]
TopP = Annotated[
    float | None, typer.Option(min=0, max=1, help="Choose among the likeliest tokens of this probability.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="The same seed gives the same answer.")]
Stop = Annotated[list[str] | None, typer.Option(help="End before this text. May be repeated.")]
