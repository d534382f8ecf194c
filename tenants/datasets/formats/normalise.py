"""When two texts count as the same."""

import re
import unicodedata
from hashlib import blake2b

WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """The text in lower case and one Unicode form, parted by single spaces; its signs stay."""
    # For ASCII both come to the same; it is most of what there is, and much faster.
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(plain.split())


def normalise(text: str) -> str:
    """The words of the text in lower case, parted by single spaces; a text without words keeps its signs."""
    plain = folded(text)
    return " ".join(WORD.findall(plain)) or plain


def fingerprint(*texts: str) -> int:
    """64 bits of a hash of the normalised texts, the same on every machine and at every time.

    Letter case, spacing, punctuation and Unicode forms do not matter: so leaks are found. Among a million
    texts two differing ones share it with probability below 1e-7.
    """
    return _hash(*map(normalise, texts))


def exact_print(*texts: str) -> int:
    """As ``fingerprint``, but punctuation matters: signs may mark what a row asks about."""
    return _hash(*map(folded, texts))


def _hash(*texts: str) -> int:
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")
