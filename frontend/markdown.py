"""Markdown as HTML, for texts that tenants write too."""

from typing import Final

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

_FENCE: Final = "---\n"
_FOLDED: Final = ("Lineage", "Data")
"""The sections of a model card that are tables of checksums."""


def markdown_parser() -> MarkdownIt:
    """Return a parser of CommonMark with tables. It takes no raw HTML."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table class="table">')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def card_html(card: str) -> SafeString:
    """Return the HTML of a model card, without its front matter and title. Checksums are folded. Pages load
    nothing of other hosts, so an image stays its own source."""
    parser = markdown_parser().disable("image")
    tokens = parser.parse(_without_front_matter(card))
    if tokens and tokens[0].type == "heading_open":
        del tokens[:3]
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token.type == "heading_open":
            parts.append([])
        parts[-1].append(token)
    html = "".join(_folded(part, parser) for part in parts)
    return mark_safe(html)  # noqa: S308 - raw HTML is off, so that all text is escaped


def _folded(part: list[Token], parser: MarkdownIt) -> str:
    """Return the HTML of a section, which opens on a click if it has checksums."""
    title = part[1].content if len(part) > 2 and part[0].type == "heading_open" else ""
    if title not in _FOLDED:
        return str(parser.renderer.render(part, parser.options, {}))
    rest = parser.renderer.render(part[3:], parser.options, {})
    return f'<details class="more"><summary>{title}, with checksums</summary>{rest}</details>'


def _without_front_matter(card: str) -> str:
    if not card.startswith(_FENCE):
        return card
    _, end, text = card.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    return text if end else card
