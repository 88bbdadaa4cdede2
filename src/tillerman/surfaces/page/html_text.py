"""Text of agents and users as HTML: escaped, with control characters shown."""

from __future__ import annotations

import html
from collections.abc import Iterable
from urllib.parse import urlsplit

from tillerman.core.terminal_sanitizer import reveal

_LONGEST_HOST = 60


def escaped(text: str) -> str:
    """For the content of an element, and for an attribute in double quotes."""
    return html.escape(reveal(text), quote=True)


def isolated(text: str) -> str:
    """A name inside other text: its direction does not affect what stands beside it."""
    return f"<bdi>{escaped(text)}</bdi>"


def icon(name: str, more: str = "") -> str:
    """An icon of the sprite; decorative, so the text beside it says the same."""
    return f'<svg class="i{more and " "}{more}" aria-hidden="true"><use href="#i-{name}"/></svg>'


def hidden(text: str) -> str:
    """Text for screen readers only."""
    return f'<span class="vh">{escaped(text)}</span>'


def link(url: str, content: str, shown: str) -> str:
    """A link to a web page, followed by its host unless the text names it; else no link.

    `content` is HTML; `shown` is its text.
    """
    host = web_host(url)
    if host is None:
        target = f" ({escaped(url)})" if url and url != shown else ""
        return f"{content}{target}"
    after = (
        ""
        if _names(shown, host)
        else f' <span class="dim">({escaped(host[:_LONGEST_HOST])})</span>'
    )
    return (
        f'<a href="{html.escape(url, quote=True)}" target="_blank" rel="noopener noreferrer">'
        f"{content}</a>{after}"
    )


def _names(shown: str, host: str) -> bool:
    """Whether the text is this host or an address on it: `bank.com` is not in `mybank.com`."""
    return (web_host(shown) or shown.partition("/")[0]) == host


def web_host(url: str) -> str | None:
    """The host of an `http` or `https` URL; None for all other targets."""
    if url != reveal(url) or any(char.isspace() for char in url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    if parts.scheme.lower() not in ("http", "https") or not host or "@" in parts.netloc:
        return None
    return host if host.isascii() else None  # an IDN host may look like another one


def joined(parts: Iterable[str]) -> str:
    return "".join(parts)
