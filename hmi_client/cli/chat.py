"""`hmi chat`: talk to a generative model."""

import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from hmi_client.cli.completion_stream import CHAT_PATH, CompletionStream
from hmi_client.cli.exit_codes import print_error
from hmi_client.cli.output import print_note, write_text
from hmi_client.cli.profiles import client_of
from hmi_client.cli.sampling import MaxTokens, Seed, Stop, Temperature, TopP
from hmi_client.cli.text_input import STDIN, read_text
from hmi_client.client import Client
from hmi_client.errors import HmiError

PROMPT = "> "
RESET = "/reset"


def chat(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="A generative model, optionally with @alias or :version.")],
    system: Annotated[str, typer.Option(help="A message of the role system, before all others.")] = "",
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    seed: Seed = None,
    stop: Stop = None,
) -> None:
    """Talk to a model. /reset forgets the messages, Ctrl-C stops an answer, Ctrl-D leaves. If stdin is not a
    terminal, it is one message, and stdout gets the answer."""
    sampling = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    with client_of(context) as client:
        session = ChatSession(client, model, system, {**sampling, "stop": stop or None})
        if sys.stdin.isatty():
            _converse(session)
        else:
            session.answer(read_text(STDIN))


class ChatSession:
    """The messages of a chat with a model."""

    def __init__(self, client: Client, model: str, system: str, sampling: dict[str, Any]) -> None:
        self._client, self._model, self._sampling = client, model, sampling
        self._opening = [_message("system", system)] if system else []
        self._messages = list(self._opening)

    def reset(self) -> None:
        """Forget all messages but the system's."""
        self._messages = list(self._opening)

    def answer(self, text: str) -> None:
        """Send a message, and stream the answer.

        Both are kept for the next message, an answer that Ctrl-C stopped as far as it went. Without an answer
        neither is kept. Raises HmiError and KeyboardInterrupt.
        """
        messages, written = [*self._messages, _message("user", text)], ""
        body = {"model": self._model, "messages": messages, **self._sampling}
        try:
            for piece in CompletionStream(self._client, CHAT_PATH, body):
                written += piece
                write_text(piece)
        finally:
            if written:
                self._messages = [*messages, _message("assistant", written)]
                sys.stdout.write("\n")


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _converse(session: ChatSession) -> None:
    """Answer what is typed until Ctrl-D."""
    with suppress(ImportError):
        import readline  # noqa: F401 - `input` edits lines with it
    while True:
        try:
            text = input(PROMPT).strip()
            if text == RESET:
                session.reset()
                print_note("Conversation cleared.")
            elif text:
                session.answer(text)
        except HmiError as error:
            print_error(error)
        except KeyboardInterrupt:
            print_note("Stopped. Ctrl-D leaves.")
        except EOFError:
            sys.stdout.write("\n")
            return
