"""The chapters of `docs/` as pages: rendered, divided into sections, and searched. Raw HTML stays text."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it.token import Token

from frontend.markdown import markdown_parser

FOLDER: Final[Path] = settings.BASE_DIR / "docs"
IMAGES: Final = FOLDER / "images"
GROUPS: Final = (
    ("Start", ("getting_started", "journeys", "concepts", "examples", "formats", "training_settings")),
    (
        "Use",
        ("client", "api", "openai", "open_inference", "batches", "webhooks", "errors", "limits"),
    ),
    ("Manage", ("accounts", "security", "operations")),
    ("How it works", ("construction", "serving", "architecture")),
)
"""The chapters in the order of reading. Those that are not named here follow as "More"."""
PAGES: Final = {
    "home": "getting_started",
    "tree": "concepts",
    "domain": "construction#domains-further-pretrain-build-plot",
    "root": "construction#roots-convert",
    "data": "formats",
    "corpus": "formats",
    "dataset": "formats",
    "check": "formats",
    "model": "construction#models-fine-tune-evaluate",
    "version": "construction#what-serves",
    "adapter_import": "formats",
    "compare": "construction#promotion-of-new-versions",
    "job": "training_settings",
    "playground": "examples",
    "batch": "batches",
    "key": "accounts#api-keys",
    "api": "api",
    "member": "accounts#members-and-invitations",
    "invit": "accounts#members-and-invitations",
    "usage": "limits#quotas",
    "request": "api#refused-and-failed",
    "webhook": "webhooks",
    "audit": "accounts#audit-log",
    "settings": "accounts",
    "takeout": "accounts",
    "profile": "accounts",
    "notices": "accounts",
}
"""The chapter, and perhaps the section, about the pages whose URL name begins so."""
CHAPTER_LINK: Final = re.compile(r"^(?P<name>\w+)\.md(?P<anchor>#.*)?$")
PLAIN: Final = frozenset({"text", "code_inline", "softbreak", "hardbreak"})
"""The parts of a line that are read; marks, links and images around them are not."""
OUTSIDE: Final = re.compile(r"^(https?:|#)")
EXCERPT: Final = 160
HITS: Final = 30
NOT_FOUND: Final = 3


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a chapter, with the text below it. The text before the first heading has no anchor."""

    title: str
    anchor: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """A file of `docs/`."""

    name: str

    @property
    def title(self) -> str:
        """Return the first heading."""
        return _source(self.name).partition("\n")[0].lstrip("# ")

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return reverse("frontend:help_chapter", args=[self.name])

    @property
    def sections(self) -> tuple[Section, ...]:
        """Return the sections with their text, in order."""
        return _sections(self.name)

    @property
    def contents(self) -> list[Section]:
        """Return the main sections, for a table of contents."""
        return [section for section in self.sections if section.level == 2]

    @property
    def html(self) -> SafeString:
        """Return the rendered text without its title."""
        return _rendered(self.name)


@dataclass(frozen=True, slots=True)
class Hit:
    """A section with all words of a search."""

    chapter: Chapter
    section: Section
    excerpt: str

    @property
    def title(self) -> str:
        """Return the title of the section, or of the chapter before its first section."""
        return self.section.title or self.chapter.title

    @property
    def url(self) -> str:
        """Return the address of the section."""
        return f"{self.chapter.url}#{self.section.anchor}" if self.section.anchor else self.chapter.url


def chapter_groups() -> list[tuple[str, list[Chapter]]]:
    """Return all chapters by group, in the order of reading."""
    names = {file.stem for file in FOLDER.glob("*.md")}
    named = {name for _, group in GROUPS for name in group}
    groups = [*GROUPS, ("More", tuple(sorted(names - named)))]
    return [(label, [Chapter(name) for name in group if name in names]) for label, group in groups]


def chapter_of(name: str) -> Chapter | None:
    """Return the chapter of this name, or None."""
    return Chapter(name) if (FOLDER / f"{name}.md").is_file() else None


def chapter_url(view_name: str) -> str:
    """Return the address of the chapter about a page, or of the first page of the help."""
    page = view_name.removeprefix("frontend:")
    named = max((name for name in PAGES if page.startswith(name)), key=len, default="")
    if not named:
        return reverse("frontend:help")
    chapter, mark, anchor = PAGES[named].partition("#")
    return reverse("frontend:help_chapter", args=[chapter]) + mark + anchor


def search(words: str, limit: int = HITS, *, titles_only: bool = False) -> list[Hit]:
    """Return the sections that contain all the words, those with them in the title first."""
    wanted = words.lower().split()
    ranked = [
        (
            rank,
            -section.text.lower().count(wanted[0]),
            Hit(chapter, section, _excerpt(section.text, wanted[0])),
        )
        for _, group in chapter_groups()
        for chapter in group
        for section in chapter.sections
        if wanted and (rank := _rank(chapter, section, wanted)) < (2 if titles_only else NOT_FOUND)
    ]
    return [hit for *_, hit in sorted(ranked, key=lambda found: found[:2])[:limit]]


def render(source: str) -> SafeString:
    """Return the HTML of a text in Markdown, without its first heading."""
    markdown = markdown_parser()
    _, _, _, *tokens = _prepared(markdown.parse(source))
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return mark_safe(html)  # noqa: S308 - raw HTML is off, so that all text is escaped


def anchor_of(title: str) -> str:
    """Return the anchor that viewers of Markdown give a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@lru_cache
def _source(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


@lru_cache
def _rendered(name: str) -> SafeString:
    return render(_source(name))


def _prepared(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens with anchors, and with links that lead to pages of the help. Diagrams are left out."""
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", anchor_of(tokens[place + 1].content))
        if token.type == "fence" and token.info == "mermaid":
            continue
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _target(str(child.attrGet("href"))))
            elif child.type == "image":
                image = Path(str(child.attrGet("src"))).name
                child.attrSet("src", reverse("frontend:help_image", args=[image]))
        yield token


def _target(href: str) -> str:
    """Return where a link leads: to a chapter, elsewhere, or for other files to the first page."""
    if found := CHAPTER_LINK.match(href):
        return reverse("frontend:help_chapter", args=[found["name"]]) + (found["anchor"] or "")
    return href if OUTSIDE.match(href) else reverse("frontend:help")


@lru_cache
def _sections(name: str) -> tuple[Section, ...]:
    """Return the sections of a chapter as plain text."""
    tokens = markdown_parser().parse(_source(name))
    parts: list[tuple[str, int, list[str]]] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            title = _plain(tokens[place + 1]) if parts else ""  # that of the chapter is not the section's
            parts.append((title, len(token.markup), []))
        elif token.type == "fence" and token.info != "mermaid":
            parts[-1][2].append(token.content)
        elif token.type == "inline" and tokens[place - 1].type != "heading_open":
            parts[-1][2].append(_plain(token))
    return tuple(
        Section(title, anchor_of(title), level, " ".join(" ".join(lines).split()))
        for title, level, lines in parts
    )


def _plain(inline: Token) -> str:
    """Return the text of a line without its markup."""
    parts = (child.content or " " for child in inline.children or () if child.type in PLAIN)
    return "".join(parts)


def _rank(chapter: Chapter, section: Section, wanted: list[str]) -> int:
    """Lower is better: words in the title of the section, with that of the chapter, with the text."""
    parts = section.title or chapter.title, f"{section.title} {chapter.title}", section.text
    texts = (parts[0], parts[1], " ".join(parts[1:]))
    found = (rank for rank, text in enumerate(texts) if all(word in text.lower() for word in wanted))
    return next(found, NOT_FOUND)


def _excerpt(text: str, word: str) -> str:
    """Return whole words around a word."""
    start = max(0, text.lower().find(word) - EXCERPT // 3)
    start = text.rfind(" ", 0, start) + 1
    end = text.rfind(" ", start, start + EXCERPT) if start + EXCERPT < len(text) else len(text)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"
