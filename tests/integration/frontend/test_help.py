"""The help: chapters of the docs as pages, their search, the glossary, and the links from pages to them."""

import re

import pytest
from django.test import Client

from frontend import glossary, help_chapters
from tests.e2e.world import World

CHAPTERS = [chapter for _, group in help_chapters.chapter_groups() for chapter in group]


def shown(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_link_within_a_chapter_leads_to_a_page_and_an_anchor(chapter: help_chapters.Chapter) -> None:
    rendered = {other.name: other.html for other in CHAPTERS}
    for name, anchor in re.findall(r'href="/help/(\w+)/(?:#([^"]+))?"', chapter.html):
        assert not anchor or f'id="{anchor}"' in rendered[name], f"{chapter.name} links to {name}#{anchor}"


def test_a_chapter_stands_in_the_navigation_of_the_tenant(owner: Client, world: World) -> None:
    page = shown(owner, "/help/serving/")
    assert '<a href="/t/acme/models/"' in page
    assert 'src="/help/images/pipeline.svg"' in page
    assert owner.get("/help/images/pipeline.svg").status_code == 200
    assert owner.get("/help/images/..%2Fapi.md").status_code == 404
    assert owner.get("/help/no_such_chapter/").status_code == 404


def test_the_navigation_stays_that_of_the_tenant_one_came_from(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    slugs = re.findall(r'href="/t/(\w+)/models/"', shown(client, "/help/"))
    assert slugs == ["acme"]


def test_raw_html_of_a_chapter_is_shown_as_text() -> None:
    html = help_chapters.render("# Title\n\n<script>alert(1)</script> [x](javascript:alert(1))\n")
    assert "<script>" not in html
    assert 'href="javascript' not in html


def test_a_search_finds_sections_by_all_their_words(owner: Client) -> None:
    page = shown(owner, "/help/?q=rotate+secret")
    assert 'href="/help/webhooks/' in page or 'href="/help/security/' in page
    assert "No results" in shown(owner, "/help/?q=xylophone")
    assert help_chapters.search("quick versions")[0].title == "Quick versions"


@pytest.mark.parametrize("words", ["alias", "Aliases"])
def test_a_search_for_a_term_begins_with_its_definition_and_quotes_no_markup(
    owner: Client, words: str
) -> None:
    page = shown(owner, f"/help/?q={words}")
    first = page.partition('class="help-hits"')[2].partition("</li>")[0]
    assert "#alias" in first
    assert "A name that points to a version of a model" in first
    excerpts = " ".join(hit.excerpt for hit in help_chapters.search(words))
    assert not re.search(r"\*\*|\]\(|---|```", excerpts)


def test_pages_lead_to_the_chapter_about_them(owner: Client, world: World) -> None:
    links = {
        page: re.search(r'class="help-link" href="([^"]+)"', shown(owner, f"/t/acme/{page}/"))
        for page in ("webhooks", "requests", "keys")
    }
    assert {page: found and found[1] for page, found in links.items()} == {
        "webhooks": "/help/webhooks/",
        "requests": "/help/api/#refused-and-failed",
        "keys": "/help/accounts/#api-keys",
    }


@pytest.mark.parametrize(
    "target", sorted({*help_chapters.PAGES.values(), *(term.chapter for term in glossary.all_terms())})
)
def test_links_to_chapters_lead_somewhere(target: str) -> None:
    name, _, anchor = target.partition("#")
    chapter = help_chapters.chapter_of(name)
    assert chapter is not None
    assert not anchor or f'id="{anchor}"' in chapter.html


def test_the_glossary_and_the_docs_say_the_same_of_a_word(owner: Client) -> None:
    page, docs = shown(owner, "/help/glossary/"), (help_chapters.FOLDER / "concepts.md").read_text()
    for term in glossary.all_terms():
        assert f'id="{term.anchor}"' in page
        assert f"| {term.meaning}" in docs, f"docs/concepts.md explains {term.word} in other words"
