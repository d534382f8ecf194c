"""Template tags of the pages of one's own account."""

from django import template
from django.conf import settings
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def sign_up_open() -> bool:
    """Whether anybody may make an account."""
    return bool(settings.HMI_SIGN_UP)


@register.simple_tag(takes_context=True)
def account_link(context: RequestContext, name: str, label: str) -> SafeString:
    """A link between the pages of one's own account; it says so when the page belongs to it."""
    url = reverse(name)
    here = context["request"].path.startswith(url)
    link = '<a href="{}" aria-current="page">{}</a>' if here else '<a href="{}">{}</a>'
    return format_html(link, url, label)
