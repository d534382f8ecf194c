"""Hints after errors: the option that mends what the server refused."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from hmi_client.errors import ApiError, FilesRejected, HmiError

Hint = str | Callable[[HmiError], str]


@contextmanager
def hints(known: Mapping[str, Hint]) -> Iterator[None]:
    """Add to an error the hint for its code, or for the first word of its ``param``."""
    try:
        yield
    except (ApiError, FilesRejected) as error:
        param = error.param if isinstance(error, ApiError) else error.error.get("param")
        for name in (error.code, str(param or "").partition(".")[0]):
            if name in known:
                hint = known[name]
                error.add_note(hint if isinstance(hint, str) else hint(error))
                break
        raise


def column_hint(error: HmiError) -> str:
    """How to map a column that is missing to one that was found."""
    details = error.error.get("details") if isinstance(error, FilesRejected) else None
    missing, found, needed = ((details or {}).get(name) or [] for name in ("missing", "found", "needed"))
    other = next((name for name in found if name not in needed), "NAME")
    return f"Map columns with --column, such as --column {next(iter(missing), 'text')}={other}."
