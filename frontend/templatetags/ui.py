"""Template tags and filters: panels, dialogs, badges, navigation, pagination and number formats."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from django import template
from django.conf import settings
from django.core.paginator import Page
from django.template.context import Context, RequestContext
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from lucide.templatetags.lucide import lucide

from frontend.access import TenantAccess
from frontend.glossary import term_of
from frontend.help_chapters import chapter_url
from frontend.presenters import version_page
from frontend.presenters.formatting import day_text, percent
from frontend.presenters.navigation import NavigationGroup, NavigationPage, navigation_of
from frontend.status import style_of
from tenants.accounts.models import Tenant
from tenants.accounts.services.invitations import sends_email
from tenants.base import hooks
from tenants.base.plurals import counted, plural
from tenants.base.ttl_cache import cached
from versiontree.tree.models import Version

register = template.Library()

DEMO_CACHE_S: Final = 5.0
THEME_COOKIE: Final = "hmi_theme"
THEMES: Final = ("light", "dark")


@register.simple_block_tag
def panel(content: SafeString, title: str, **options: Any) -> SafeString:
    """A titled box. Options: id, flush, note, more (a URL) and more_label."""
    return render_to_string("frontend/panels/panel.html", {"content": content, "title": title, **options})


@register.simple_block_tag(takes_context=True)
def dialog(context: Context, content: SafeString, page: str, *args: Any, **options: Any) -> SafeString:
    """A button that opens a dialog with a form. The block holds the fields; the form posts to `page`.

    Options: label, title, text, danger, submit (the label of the form's button), aria_label, id.
    """
    action = reverse(f"frontend:{page}", args=[context["tenant"].slug, *args])
    shown = {
        "id": "-".join(map(str, (page, *args))),
        "content": content,
        "action": action,
        "csrf_token": context.get("csrf_token"),
    }
    return render_to_string("frontend/panels/dialog.html", shown | options)


@register.inclusion_tag("frontend/panels/badge.html")
def badge(state: str) -> dict[str, str]:
    """A badge with the label and colour of a state."""
    style = style_of(state)
    return {"label": style.label, "colour": style.colour}


@register.simple_tag
def row_line(row: Mapping[str, Any]) -> str:
    """The fields of a row of a dataset in one line."""
    values = (value for name, value in row.items() if name != "cut")
    return " · ".join(map(str, values))


@register.inclusion_tag("frontend/panels/term.html", takes_context=True)
def term(context: Context, word: str, label: str = "") -> dict[str, object]:
    """A word with its meaning from the glossary, which opens by click, tap or key. `label`: the word as it
    stands on the page, such as its plural."""
    request, found = context["request"], term_of(word)
    request.terms_shown = getattr(request, "terms_shown", 0) + 1
    return {"term": found, "label": label or word, "id": f"term-{found.anchor}-{request.terms_shown}"}


@register.simple_tag(takes_context=True)
def help_url(context: Context) -> str:
    """Return the address of the chapter about the page."""
    match = getattr(context.get("request"), "resolver_match", None)
    return chapter_url(match.view_name if match else "")


@register.filter
def state_label(state: str) -> str:
    """Return the label of a state."""
    return style_of(state).label


@register.simple_tag(takes_context=True)
def chosen_theme(context: Context) -> str:
    """Return the theme chosen in this browser; empty for that of the system."""
    request = context.get("request")
    chosen = request.COOKIES.get(THEME_COOKIE, "") if request else ""
    return chosen if chosen in THEMES else ""


@register.simple_tag
def demo_models(tenant: Tenant) -> frozenset[str] | None:
    """Return the names of the tenant's models that the demo made; None if the tenant is not of the demo."""
    return cached(f"demo-models:{tenant.pk}", lambda: (_demo_models(tenant),), DEMO_CACHE_S)[0]


def _demo_models(tenant: Tenant) -> frozenset[str] | None:
    return next((names for names in hooks.demo_models(tenant) if names is not None), None)


@register.simple_tag
def navigation(access: TenantAccess) -> list[NavigationGroup]:
    """Return the groups of the main navigation."""
    return navigation_of(access)


@register.simple_tag(takes_context=True)
def nav_link(context: RequestContext, page: NavigationPage, unseen: int = 0) -> SafeString:
    """A link of the main navigation. It is current on its pages and on those below `page.also`. `unseen`:
    how much is new there."""
    request = context["request"]
    slug = request.access.tenant.slug
    url, home = (reverse(f"frontend:{name}", args=[slug]) for name in (page.name, "home"))
    below = tuple(f"{home}{part}/" for part in page.also.split())
    current = request.path == url or (page.name != "home" and request.path.startswith((url, *below)))
    label = format_html("{}<span>{}</span>", _icon(page.icon), page.label)
    if unseen:
        label += format_html(
            ' <span class="badge primary">{}<span class="visually-hidden"> ended</span></span>', unseen
        )
    return _link(url, label, current=current)


@lru_cache
def _icon(name: str) -> str:
    """The SVG of an icon, hidden from screen readers."""
    return lucide(name, size=16, aria_hidden="true")


@register.simple_tag(takes_context=True)
def account_link(context: RequestContext, name: str, label: str) -> SafeString:
    """A link of the account navigation. It is current on its pages."""
    url = reverse(name)
    return _link(url, label, current=context["request"].path.startswith(url))


def _link(url: str, label: str, *, current: bool) -> SafeString:
    link = '<a href="{}" aria-current="page">{}</a>' if current else '<a href="{}">{}</a>'
    return format_html(link, url, label)


@register.simple_tag(takes_context=True)
def version_url(context: Context, version: Version) -> str:
    """Return the URL of a version's page."""
    return version_page.version_url(context["tenant"], version)


@register.simple_tag
def sign_up_open() -> bool:
    """Return whether anybody may sign up."""
    return bool(settings.HMI_SIGN_UP)


register.simple_tag(sends_email)


@register.simple_tag(takes_context=True)
def page_query(context: RequestContext, number: int, key: str = "") -> str:
    """Return the query for another page of a list; `key` is its query parameter."""
    query = context["request"].GET.copy()
    query[key or "page"] = str(number)
    return f"?{query.urlencode()}"


@register.simple_tag
def page_numbers(page: Page[Any]) -> list[int | str]:
    """Return the page numbers to link, with an ellipsis for gaps."""
    return list(page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1))


@register.filter
def has_folded_errors(form: Any) -> bool:
    """Return whether a folded field has errors."""
    return any(name in form.errors for name in form.more)


@register.filter
def count(number: int | None) -> str:
    """Format an integer: 1234567 -> 1,234,567. None is a dash."""
    return "–" if number is None else f"{number:,}"


register.filter(counted)
register.filter(plural)
register.filter(percent)


@register.filter
def exact(value: float) -> str:
    """Format a number for an attribute, never localised."""
    return f"{float(value):.4f}"


@register.filter
def hundred(share: float) -> str:
    """Format a share in 0..1 as an SVG coordinate in 0..100."""
    return f"{float(share) * 100:.3f}"


@register.filter
def ago(moment: datetime | None) -> str:
    """Format a time relative to now: just now, 5 min ago, 3 h ago, 2 days ago, 4 May 2026."""
    if moment is None:
        return "–"
    seconds = (timezone.now() - moment).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    days = int(seconds // 86_400)
    if days < 30:
        return "yesterday" if days == 1 else f"{days} days ago"
    return day_text(moment)


@register.filter
def duration(seconds: float | None) -> str:
    """Format seconds: 42 s, 3 min 5 s, 2 h 10 min. None is a dash."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
