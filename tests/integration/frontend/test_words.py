"""Every visible string of all pages, held against a short list of words that no reader should meet."""

import re
from html.parser import HTMLParser

from django.test import Client

from tests.e2e.gallery import addresses_of, furnish
from tests.e2e.world import World, nothing_of_use

DENIED = {
    "an internal name": r"(?-i:\bPLOTs?\b)|\bcls[_ ]mean\b|\balpha\b|α|\bstore artifacts\b|\bhplms?\b",
    "a word of its authors": r"\bunexplained variance\b|\btruncated share\b|\bimbalance\b|\bescalated\b",
    "a word of the code": r"\binfer requests?\b|\blook up\b|\bfurther[- ]pretrain\b",
    "British spelling": r"\bcolours?\b|\bgrey\b|\blabelled\b|\blicence\b|(?<![.\w])cancelled\b"
    r"|\bneighbours?\b|\bbehaviour\b|\bcentred?\b|\bcatalogue\b"
    r"|\b(?:organ|recogn|optim|initial|normal|custom|token|priorit)is(?:e|ed|es|ing|ation)\b",
}
SHOWN = ("aria-label", "title", "placeholder", "alt")
HIDDEN = {"script", "style", "template", "pre", "code", "textarea"}
VOID = {"input", "img", "br", "hr", "meta", "link", "wbr", "source", "col"}
ELSEWHERE = (
    "/help/",
    "/help/glossary/",
    "/profile/",
    "/notices/",
    "/email/",
    "/password/change/",
    "/second-factor/",
)


class Strings(HTMLParser):
    """The strings that a person reads or hears, without code, and without what is folded into *Details*."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[str] = []
        self._folds: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self._take(" ".join(value for name, value in attrs if name in SHOWN and value))
            return
        self._open.append(tag)
        if tag == "details":
            self._folds.append([])
        self._take(" ".join(value for name, value in attrs if name in SHOWN and value))

    def handle_endtag(self, tag: str) -> None:
        while tag in self._open and self._open.pop() != tag:
            pass
        if tag == "details" and self._folds:
            strings = self._folds.pop()
            if "Details" not in strings:
                for text in strings:
                    self._take(text)

    def handle_data(self, data: str) -> None:
        self._take(" ".join(data.split()))

    def _take(self, text: str) -> None:
        if text and not HIDDEN & set(self._open):
            (self._folds[-1] if self._folds else self.found).append(text)


def faults_of(strings: list[str]) -> list[str]:
    return [
        f"{found[0]!r} is {kind}: {text[:100]}"
        for text in dict.fromkeys(strings)
        for kind, rule in DENIED.items()
        if (found := re.search(rule, text, re.IGNORECASE))
    ]


def test_no_page_has_a_denied_word(owner: Client, world: World) -> None:
    furnish(world, nothing_of_use)
    pages = [f"/t/acme/{address}" for address in addresses_of(world).values()]
    faults = {}
    for page in (*pages, *ELSEWHERE):
        answer = owner.get(page, follow=True)
        assert answer.status_code in (200, 404), page
        faults[page] = faults_of(Strings(answer.content.decode()).found)
    told = [f"{page}: {fault}" for page, found in faults.items() for fault in found]
    assert not told, "\n".join(told)


def test_the_walk_reads_what_is_seen_and_no_code() -> None:
    page = (
        '<p>Infer requests</p><code>alpha</code><input aria-label="Colours">'
        "<details><summary>Details</summary>PLOT</details><details><summary>More</summary>cls_mean</details>"
    )
    assert [fault.partition(" is ")[0] for fault in faults_of(Strings(page).found)] == [
        "'Infer requests'",
        "'Colours'",
        "'cls_mean'",
    ]
