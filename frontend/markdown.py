"""Markdown as HTML, for texts that tenants write too."""

from typing import Final

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_FENCE: Final = "---\n"


def markdown_parser() -> MarkdownIt:
    """Return a parser of CommonMark with tables. It takes no raw HTML."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll"><table class="table">')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def card_html(card: str) -> SafeString:
    """Return the HTML of a model card, without its front matter and title. Pages load nothing of other hosts,
    so an image stays its own source."""
    parser = markdown_parser().disable("image")
    tokens = parser.parse(_without_front_matter(card))
    if tokens and tokens[0].type == "heading_open":
        del tokens[:3]
    html: str = parser.renderer.render(tokens, parser.options, {})
    return mark_safe(html)  # noqa: S308 - raw HTML is off, so that all text is escaped


def _without_front_matter(card: str) -> str:
    if not card.startswith(_FENCE):
        return card
    _, end, text = card.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    return text if end else card
