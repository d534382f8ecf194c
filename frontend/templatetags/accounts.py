"""Template tags of the account pages."""

from django import template
from django.conf import settings
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def sign_up_open() -> bool:
    """Return whether anybody may sign up."""
    return bool(settings.HMI_SIGN_UP)


@register.simple_tag(takes_context=True)
def account_link(context: RequestContext, name: str, label: str) -> SafeString:
    """A link of the account navigation. It is current on its pages."""
    url = reverse(name)
    here = context["request"].path.startswith(url)
    link = '<a href="{}" aria-current="page">{}</a>' if here else '<a href="{}">{}</a>'
    return format_html(link, url, label)
