"""What stands on a page, without its markup."""

from collections import defaultdict
from html.parser import HTMLParser

Attributes = dict[str, str | None]


class Page(HTMLParser):
    """``facts`` are the texts of each ``dt`` and of the ``dd`` after it, in order; ``tags`` the attributes of
    all elements, by name."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.facts: list[tuple[str, str]] = []
        self.tags: dict[str, list[Attributes]] = defaultdict(list)
        self._parts: list[str] | None = None
        self.feed(html)

    def all_of(self, name: str) -> list[str]:
        """What stands beside each ``dt`` of this name."""
        return [value for found, value in self.facts if found == name]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag].append(dict(attrs))
        if tag in {"dt", "dd"}:
            self._parts = []

    def handle_data(self, data: str) -> None:
        if self._parts is not None and data.strip():
            self._parts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"dt", "dd"} or self._parts is None:
            return
        text, self._parts = " ".join(self._parts), None
        if tag == "dt":
            self.facts.append((text, ""))
        else:
            self.facts[-1] = (self.facts[-1][0], text)
