"""Template tags: the panel, status badges, navigation, and how figures are written."""

from datetime import datetime
from typing import Any, Final

from django import template
from django.core.paginator import Page
from django.template.context import Context, RequestContext
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from frontend.status import style_of

register = template.Library()

THEME_COOKIE: Final = "hmi_theme"
THEMES: Final = ("light", "dark")


@register.simple_block_tag
def panel(content: SafeString, title: str, **options: Any) -> SafeString:
    """A titled box. Options: id, flush, note, more (an address) and more_label."""
    return render_to_string("frontend/panels/panel.html", {"content": content, "title": title, **options})


@register.inclusion_tag("frontend/panels/badge.html")
def badge(state: str) -> dict[str, str]:
    """The label and colour of a state of a job, a version or a key."""
    style = style_of(state)
    return {"label": style.label, "colour": style.colour}


@register.simple_tag(takes_context=True)
def chosen_theme(context: Context) -> str:
    """The colours that were chosen in this browser; empty where the system's are good."""
    request = context.get("request")
    chosen = request.COOKIES.get(THEME_COOKIE, "") if request else ""
    return chosen if chosen in THEMES else ""


@register.simple_tag(takes_context=True)
def nav_link(context: RequestContext, name: str, label: str, also: str = "") -> SafeString:
    """A link of the main navigation; it says so when the page belongs to it, or lies below one of `also`."""
    request = context["request"]
    slug = request.access.tenant.slug
    url, home = (reverse(f"frontend:{page}", args=[slug]) for page in (name, "home"))
    below = tuple(f"{home}{part}/" for part in also.split())
    here = request.path == url or (name != "home" and request.path.startswith((url, *below)))
    link = '<a href="{}" aria-current="page">{}</a>' if here else '<a href="{}">{}</a>'
    return format_html(link, url, label)


@register.simple_tag(takes_context=True)
def page_address(context: RequestContext, number: int, key: str = "") -> str:
    """This address with another page of a list; `key` names the list where there are several."""
    asked = context["request"].GET.copy()
    asked[key or "page"] = str(number)
    return f"?{asked.urlencode()}"


@register.simple_tag
def page_numbers(page: Page[Any]) -> list[int | str]:
    """The first, the last and those around this page, with dots where some are left out."""
    return list(page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1))


@register.filter
def refused_below(form: Any) -> bool:
    """Whether a field was refused that the form folds away."""
    return any(name in form.errors for name in form.more)


@register.filter
def count(number: int | None) -> str:
    """1234567 -> 1,234,567. An absent figure is a dash."""
    return "–" if number is None else f"{number:,}"


@register.filter
def percent(share: float | None) -> str:
    """0.8125 -> 81.2%. An absent figure is a dash."""
    return "–" if share is None else f"{share:.1%}"


@register.filter
def exact(value: float) -> str:
    """A number for a machine: never localised."""
    return f"{float(value):.4f}"


@register.filter
def hundred(share: float) -> str:
    """A share in 0..1 as a coordinate in 0..100, for a machine."""
    return f"{float(share) * 100:.3f}"


@register.filter
def ago(moment: datetime | None) -> str:
    """How long ago something was, roughly: just now, 5 min ago, 3 h ago, 2 days ago, 4 May 2026."""
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
    return f"{moment.day} {moment:%b %Y}"


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as people say them: 42 s, 3 min 5 s, 2 h 10 min. An absent figure is a dash."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
