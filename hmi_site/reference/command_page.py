"""The page of the command's reference: every subcommand with its arguments and options, from its code."""

import re
from typing import Final

import typer
from typer.cli import get_docs_for_click

from hmi_client.cli.app import app

HEAD: Final = """# Reference of the command `hmi`

Made from the code by `make reference`; how it is used is in [the guide](client.md).

"""
WIDE: Final = re.compile(r"[ \t]+$", re.M)


def command_page() -> str:
    """The page as Markdown."""
    command = typer.main.get_command(app)
    with typer.Context(command, info_name="hmi") as context:
        page = get_docs_for_click(obj=command, ctx=context, name="hmi", indent=1)  # type: ignore[arg-type]
    return HEAD + WIDE.sub("", page).rstrip() + "\n"
