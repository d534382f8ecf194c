"""Secrets in texts that are kept: log records, tracebacks and the log of requests.

Standard library only, so that each package may mask the same ones.
"""

import re
from typing import Final

SECRETS: Final = re.compile(
    r"\b[A-Za-z0-9]{8}\.[A-Za-z0-9]{20,}"  # an API key, also one that was cut
    r"|(?<=://)[^\s@]{1,256}+(?:@[^\s@/\"',]{1,256}+)*(?=@)"  # user and password of a URL
    r"|\bhf_[A-Za-z0-9]{16,}"  # a token of the Hugging Face hub
    r"|\bwhsec_[A-Za-z0-9+/=_-]+"  # the secret of a webhook
    r"|(?i:\b(?:bearer|basic) [A-Za-z0-9._~+/=-]{16,})"  # an Authorization header
)
MASK: Final = "[hidden]"


def mask_secrets(text: str, mask: str = MASK) -> str:
    """The text with the mask in place of API keys, passwords in URLs, webhook secrets and credentials."""
    return SECRETS.sub(mask, text)
