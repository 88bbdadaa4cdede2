"""The page as a whole: head, list of sessions, conversation and panel. It works without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tillerman.core.events import Diff, QuestionAsked
from tillerman.core.transcript.blocks import calls_of
from tillerman.core.transcript.transcript import Transcript
from tillerman.store.search import MARK_BEGIN, MARK_END
from tillerman.surfaces.page.agent_tile import agent_name, tile
from tillerman.surfaces.page.composer_html import ComposerView, composer_html
from tillerman.surfaces.page.conversation import PageConversation, turn_id
from tillerman.surfaces.page.diff_html import diff_html
from tillerman.surfaces.page.html_text import escaped, icon
from tillerman.surfaces.page.patches import TURNS
from tillerman.surfaces.page.request_html import ShownRequest, dock_html
from tillerman.surfaces.page.session_list_html import RailEntry, rail_html
from tillerman.surfaces.page.side_panel_html import SideView, side_html

FIRST_BLOCKS, FIRST_LENGTH = 200, 200_000  # of a session that is opened; earlier ones on request
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
_THEME = (
    '<meta name="theme-color" content="#f5f3ef" media="(prefers-color-scheme: light)">'
    '<meta name="theme-color" content="#0f1214" media="(prefers-color-scheme: dark)">'
)


@dataclass(frozen=True)
class PageLayout:
    """What every view has: who is there, and the list of sessions."""

    host: str
    csrf: str
    version: str  # of the static files, which are cached
    entries: Sequence[RailEntry]
    total: int
    theme: str = "auto"

    @property
    def waiting(self) -> int:
        return sum(entry.group == "need" for entry in self.entries)


@dataclass(frozen=True)
class SessionView:
    id: str
    title: str
    agent: str | None
    model: str | None
    folder: str
    running: bool
    conversation: PageConversation
    first_turn: int
    request: ShownRequest | None
    composer: ComposerView

    @property
    def dock(self) -> str:
        """What kind of request is open."""
        if self.request is None:
            return "none"
        return "question" if isinstance(self.request.asked, QuestionAsked) else "permission"


def first_turn(conversation: PageConversation, before: int | None = None) -> int:
    """The first of the last turns that fit into a page, before a turn if one is given."""
    blocks = length = 0
    numbers = [n for n in conversation.turn_numbers() if before is None or n < before]
    first = numbers[-1] if numbers else 0
    for number in reversed(numbers):
        html = conversation.turn_html(number)
        blocks, length = blocks + html.count(' id="b-'), length + len(html)
        if number != numbers[-1] and (blocks > FIRST_BLOCKS or length > FIRST_LENGTH):
            break
        first = number
    return first


def session_page(frame: PageLayout, view: SessionView, side: SideView) -> str:
    body = (
        f"{_rail(frame, view.id)}"
        f'<main id="main" class="main">{_header(frame, view)}{_NET}'
        '<div id="log" class="log" role="log" aria-live="off" aria-label="Conversation" '
        f'tabindex="0"><div class="log-in">{_earlier(view)}<div id="{TURNS}">'
        f"{turns_html(view.conversation, view.first_turn)}</div></div></div>"
        '<div class="foot"><button class="btn small to-end" type="button" hidden>'
        f"{icon('down')}To the end</button>"
        f"{dock_html(view.request, frame.csrf)}{composer_html(view.composer, frame.csrf)}</div>"
        "</main>"
        '<aside id="side" class="side" aria-label="Branch, changes and processes">'
        f"{side_html(side)}</aside>{_tabs(frame, view.id)}"
    )
    data = (
        f'data-view="session" data-screen="chat" data-dock="{view.dock}" data-net="ok" '
        f'data-note="none" data-side="open" data-session="{view.id}" '
        f'data-seq="{view.conversation.seq}" data-first="{view.first_turn}"'
    )
    return _document(frame, view.title, data, body)


def new_session_page(frame: PageLayout, composer: ComposerView, agents: Sequence[str]) -> str:
    body = (
        f"{_rail(frame, None)}"
        '<main id="main" class="main"><section class="empty" aria-labelledby="empty-h">'
        '<h1 id="empty-h">New session</h1>'
        '<p class="lead">Everything is stored. You can leave this page at any time.</p>'
        f'<ul class="agents" aria-label="Agents on this machine">{"".join(agents)}</ul></section>'
        f'<div class="foot"><div id="dock" class="dock" hidden></div>'
        f"{composer_html(composer, frame.csrf)}</div></main>{_tabs(frame, None)}"
    )
    data = 'data-view="empty" data-screen="chat" data-dock="none" data-net="ok" data-note="none"'
    return _document(frame, "New session", data, body)


def sign_in_page(frame: PageLayout, problem: str = "") -> str:
    note = escaped(problem) or "After three wrong codes, each further one takes longer."
    body = (
        '<main id="signin" class="signin" aria-labelledby="signin-h"><div class="signin-card">'
        '<svg class="mark" aria-hidden="true"><use href="#i-mark"/></svg>'
        f'<h1 id="signin-h">Sign in to {escaped(frame.host)}</h1>'
        '<p class="lead">This page drives coding agents on your machine, so it opens only with a '
        "link that you made there.</p>"
        '<ol class="ways"><li><p>In a terminal on that machine:</p>'
        '<div class="shell"><code>tillerman serve link</code></div></li>'
        "<li><p>Open the link that it prints, or scan its QR code. It works once.</p></li></ol>"
        '<form class="code-form" method="post" action="/in">'
        '<label for="code">Or type the code from the end of the link</label>'
        '<div class="row"><input id="code" name="code" autocomplete="one-time-code" '
        'spellcheck="false" aria-describedby="code-note" required>'
        '<button class="btn primary big">Sign in</button></div>'
        f'<p id="code-note" class="note"{" role=alert" if problem else ""}>{note}</p>'
        "</form></div></main>"
    )
    return _document(frame, "Sign in", 'data-view="signin" data-screen="chat"', body)


def search_page(frame: PageLayout, words: str, rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Sessions in which the words were found: id, title, agent, and the text around them."""
    found = "".join(
        f'<li><a href="/s/{id}">{tile(agent)}<span class="t">{escaped(title)}</span>'
        f'<span class="dim">{_snippet(text)}</span></a></li>'
        for id, title, agent, text in rows
    )
    none = '<p class="note">Nothing was found.</p>' if words and not rows else ""
    body = (
        f"{_rail(frame, None)}"
        '<main id="main" class="main"><section class="search" aria-labelledby="search-h">'
        '<h1 id="search-h">Search all sessions</h1>'
        '<form method="get" action="/search" role="search"><input type="search" name="q" '
        f'aria-label="Words" value="{escaped(words)}" autofocus><button class="btn">Search</button>'
        f'</form>{none}<ul class="hits">{found}</ul></section></main>{_tabs(frame, None)}'
    )
    data = 'data-view="search" data-screen="chat" data-dock="none" data-net="ok" data-note="none"'
    return _document(frame, "Search", data, body)


def _snippet(text: str) -> str:
    """The text around a match, which is marked."""
    parts = text.replace(MARK_END, MARK_BEGIN).split(MARK_BEGIN)
    return "".join(
        f"<mark>{escaped(part)}</mark>" if at % 2 else escaped(part)
        for at, part in enumerate(parts)
    )


def changes_page(frame: PageLayout, view: SessionView, side: SideView, diffs: str) -> str:
    """All changes of a session, for review."""
    body = (
        f"{_rail(frame, view.id)}"
        f'<main id="main" class="main">{_header(frame, view)}'
        '<div id="review" class="log" tabindex="0" role="group" aria-label="All changes">'
        f'<div class="log-in"><p><a class="btn small" href="/s/{view.id}">Back to the conversation'
        f"</a></p>{diffs}</div></div></main>"
        '<aside id="side" class="side" aria-label="Branch, changes and processes">'
        f"{side_html(side)}</aside>{_tabs(frame, view.id)}"
    )
    data = (
        'data-view="session" data-screen="chat" data-dock="none" data-net="ok" data-note="none" '
        'data-side="open"'
    )
    return _document(frame, f"Changes of {view.title}", data, body)


def changes_html(transcript: Transcript) -> str:
    """The edits of all calls, by file."""
    cards: dict[str, list[str]] = {}
    for turn in transcript.turns:
        for call in calls_of(turn.blocks):
            if call.state != "completed":
                continue
            for part in call.content:
                if isinstance(part, Diff):
                    cards.setdefault(part.path, []).append(diff_html(part))
    return (
        "".join(
            f'<details open class="card" id="{escaped(path)}"><summary><code class="tgt">'
            f"{escaped(path)}</code></summary>{''.join(diffs)}</details>"
            for path, diffs in cards.items()
        )
        or '<p class="note">The agent reported no edits with their content.</p>'
    )


def turns_html(conversation: PageConversation, first: int, before: int | None = None) -> str:
    return "".join(
        conversation.turn_html(number)
        for number in conversation.turn_numbers()
        if number >= first and (before is None or number < before)
    )


def static_file(name: str) -> bytes:
    return (files(__package__) / "static" / name).read_bytes()


@cache
def _sprite() -> str:
    return static_file("icons.svg").decode()


_NET = (
    '<div class="net" id="net" role="alert">'
    f"{icon('off')}<p><b>Connection lost.</b> The agent continues and nothing is lost; "
    "answers are disabled until the connection is back.</p>"
    '<button class="btn small" type="button" data-reconnect>Try now</button></div>'
)


def _document(frame: PageLayout, title: str, data: str, body: str) -> str:
    count = f"({frame.waiting}) " if frame.waiting else ""
    version = escaped(frame.version)
    return (
        f'<!doctype html><html lang="en" data-theme="{escaped(frame.theme)}"><head>'
        f'<meta charset="utf-8"><title>{count}{escaped(title)} · tillerman</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover, '
        'interactive-widget=resizes-content"><meta name="color-scheme" content="light dark">'
        f"{_THEME}"
        f'<link rel="icon" type="image/svg+xml" href="/static/{version}/icon.svg">'
        f'<link rel="stylesheet" href="/static/{version}/style.css">'
        f'<script type="module" src="/static/{version}/page.js"></script></head>'
        f"<body {data}>{_sprite()}"
        '<a class="skip" href="#composer-text">Go to the prompt</a>'
        f'<p id="say" class="vh" role="status"></p>{body}</body></html>'
    )


def _rail(frame: PageLayout, current: str | None) -> str:
    return (
        '<nav id="rail" class="rail" aria-label="Sessions"><header class="rail-head">'
        '<a class="brand" href="/"><svg class="mark" aria-hidden="true"><use href="#i-mark"/></svg>'
        f'<span>tillerman</span></a><span class="host"><span class="vh">on </span>'
        f'{escaped(frame.host)}</span><button class="icon-btn" type="button" data-theme-switch '
        f'aria-label="Light or dark">{icon("theme")}</button></header>'
        f'<div class="rail-do"><a class="btn new" href="/new">{icon("plus")}New session'
        '<kbd aria-hidden="true">C</kbd></a>'
        '<a class="btn icon find" href="/search" aria-label="Search all sessions">'
        f"{icon('search')}</a></div>"
        f"{rail_html(frame.entries, frame.total, current)}"
        '<footer class="rail-foot"><button class="btn quiet small" type="button" data-notify '
        f'aria-pressed="false">{icon("bell")}Notifications</button></footer></nav>'
    )


def _header(frame: PageLayout, view: SessionView) -> str:
    waiting = f", {frame.waiting} need you" if frame.waiting else ""
    return (
        '<header class="bar"><a class="icon-btn back" href="?screen=sessions" '
        f'aria-label="All sessions{waiting}">{icon("back")}</a><div class="bar-t">'
        f"{heading_html(view)}</div>"
        '<div class="bar-a"><button class="icon-btn" type="button" data-panel '
        'aria-label="Changes, branch and processes" aria-controls="side" aria-expanded="true">'
        f"{icon('side')}</button></div></header>"
    )


def heading_html(view: SessionView) -> str:
    """The title and the state, which change while the session runs."""
    model = f'<span class="x-model">{escaped(view.model)}</span>' if view.model else ""
    return (
        f'<div id="heading" class="bar-t"><h1>{escaped(view.title)}</h1><p class="sub">'
        f'<span class="who">{escaped(agent_name(view.agent))}</span>{model}'
        f"<span>{escaped(view.folder)}</span>"
        f'{_session_state(view)}<span class="state lost">not connected</span></p></div>'
    )


def _session_state(view: SessionView) -> str:
    if view.request:
        return '<span class="state wait">needs you</span>'
    if view.running:
        return f'<span class="state run">{icon("ring", "spin")}working</span>'
    return ""


def _earlier(view: SessionView) -> str:
    numbers = view.conversation.turn_numbers()
    left = sum(number < view.first_turn for number in numbers)
    if not left:
        return ""
    return earlier_html(view.first_turn, left)


def earlier_html(first: int, left: int) -> str:
    return (
        f'<div class="earlier" id="earlier"><a class="btn small" rel="prev" '
        f'href="?before={turn_id(first)}">Load earlier</a>'
        f"<span>{left} turn{'s' if left != 1 else ''}</span></div>"
    )


def _tabs(frame: PageLayout, session: str | None) -> str:
    here = f"/s/{session}" if session else "/new"
    count = (
        f'<span class="count need">{frame.waiting}<span class="vh"> need you</span></span>'
        if frame.waiting
        else ""
    )
    return (
        '<nav class="tabs" aria-label="Views">'
        f"{_tab(here, 'sessions', 'list', 'Sessions', count)}"
        f"{_tab(here, 'chat', 'chat', 'Conversation')}{_tab(here, 'changes', 'diff', 'Changes')}"
        "</nav>"
    )


def _tab(here: str, screen: str, sign: str, label: str, count: str = "") -> str:
    return (
        f'<a href="{here}?screen={screen}" class="tab t-{screen}">{icon(sign)}'
        f"<span>{label}</span>{count}</a>"
    )
