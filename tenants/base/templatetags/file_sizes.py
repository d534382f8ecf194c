"""The filter `filesizeformat` of all templates, in powers of ten instead of Django's powers of two."""

from django import template

from tenants.base.file_sizes import file_size

register = template.Library()
register.filter("filesizeformat", file_size)
