"""Permission and question dialogs: key handling and rendering, shared by the CLI and the TUI."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.text import Text

from tillerman.core.events import Answer, Option, PermissionRequested, Question, QuestionAsked
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.core.terminal_sanitizer import clean
from tillerman.core.tools import WRITES
from tillerman.sessions.permissions.project_rules import project_of
from tillerman.surfaces.rendering import formatting, transcript_blocks
from tillerman.surfaces.rendering.request_preview import Preview
from tillerman.surfaces.rendering.special_keys import (
    BACKSPACE,
    CLEAR,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    PAGE_UP,
    UP,
)

EDIT = "edit"  # returned by `press`: open the editor
ALL_EDITS = "all edits"  # returned by `press`: allow this, and set the preset to edits
ANY = 100_000  # no limit on lines
_SCROLLS = {UP: -1, DOWN: 1, PAGE_UP: -10, PAGE_DOWN: 10}
_DIGITS = "123456789"


class TextLine:
    """A single-line text input."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.text = ""

    def press(self, key: str) -> None:
        if key == BACKSPACE:
            self.text = self.text[:-1]
        elif key == CLEAR:
            self.text = ""
        elif key.isprintable():
            self.text += key

    def draw(self) -> Text:
        return (
            Text(f"{self._label}: ", style="bold").append(self.text, style="not bold").append("▏")
        )


class Keys:
    """The list of keys and their labels, wrapped only between entries."""

    def __init__(self) -> None:
        self._parts: list[Text] = []

    def add(self, key: str, words: str) -> None:
        self._parts.append(Text().append(f"[{key}]", style="bold").append(f" {words}"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for part in self._parts:
            if line and line.cell_len + 2 + part.cell_len > options.max_width:
                yield line
                line = Text()
            line.append("  " if line else "").append_text(part)
        yield line


@dataclass
class Scroll:
    """Scroll position: index of the first visible line."""

    top: int = 0


class _Fitted:
    """Fits the content into the available lines; the key list is always visible."""

    def __init__(
        self,
        upper: Sequence[RenderableType],
        lower: RenderableType,
        most: Callable[[], int],
        scroll: Scroll,
    ) -> None:
        self._upper, self._lower, self._most, self._scroll = upper, lower, most, scroll

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(height=None)
        lower = console.render_lines(self._lower, options, pad=False)
        upper = console.render_lines(Group(*self._upper), options, pad=False)
        room = self._most() - len(lower)
        if len(upper) > room:
            shown, total = max(1, room - 1), len(upper)
            top = self._scroll.top = min(max(0, self._scroll.top), total - shown)
            where = f"… lines {top + 1} to {top + shown} of {total}: ↑ ↓ to scroll"
            reported = console.render_lines(Text(where, style="dim"), options, pad=False)
            upper = upper[top : top + shown] + (reported[:1] if room > 1 else [])
        for line in upper + lower:
            yield from line
            yield Segment.line()


class PermissionDialog:
    """Dialog for one permission request. `approve` is the active preset."""

    def __init__(
        self, request: PermissionRequested, folder: Path | None = None, approve: str = "ask"
    ) -> None:
        self.request = request
        self._keys = _option_keys(request.options)
        self._preview = Preview(request, folder)
        self._approve = approve
        self._scroll = Scroll()
        self._whole = False
        self._reason: TextLine | None = None
        self._always: Always | None = None
        self._folder = folder
        self._complaint = ""

    def press(self, key: str) -> Answer | str | None:
        """Handles a key. Returns an answer, EDIT or ALL_EDITS, or None if more input is needed."""
        self._complaint = ""
        if self._reason:
            return self._type_reason(self._reason, key)
        if self._always:
            return self._choose_scope(self._always, key)
        match key:
            case _ if key in _SCROLLS:
                self._scroll.top += _SCROLLS[key]
            case "?":
                self._whole, self._scroll.top = not self._whole, 0
            case _ if key == ESCAPE:
                self._whole, self._scroll.top = False, 0
            case "w" if self._offers_edits:
                return ALL_EDITS
            case "e" if not self.request.changeable:
                self._complaint = (
                    "this agent does not accept changed input: use [r] to say what to do instead"
                )
            case "e":
                return EDIT
            case "r" if "n" in self._keys:
                self._reason = TextLine("reason")
            case "a" if rule_for(self.request) is None:
                self._complaint = "not specific enough to be remembered: answer it once"
            case "a":
                self._always = Always(self.request, self._folder)
            case _ if key in self._keys:
                return Answer(self._keys[key].id)
        return None

    def edited(self, text: str) -> Answer | None:
        """Parses the input that the editor returned; None if it is invalid or unchanged."""
        try:
            input = msgspec.json.decode(text, type=dict)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._complaint = f"not a JSON object, nothing was changed: {error}"
            return None
        if input == self.request.input:
            self._complaint = "nothing was changed"
            return None
        allow = self._keys.get("y")
        return Answer(allow.id if allow else "allow", input=input)

    @property
    def nested(self) -> bool:
        """True if Escape returns to the main question; otherwise Escape has no effect."""
        return self._reason is not None or self._always is not None or self._whole

    @property
    def typing(self) -> bool:
        """True while letters are text input and not key commands."""
        return self._reason is not None

    @property
    def complaint(self) -> str:
        """Why the last input was rejected."""
        return self._complaint

    @property
    def allowed(self) -> Answer:
        """The answer sent together with ALL_EDITS."""
        option = self._keys.get("y")
        return Answer(option.id if option else "allow")

    @property
    def _offers_edits(self) -> bool:
        """True for an edit or a plan under preset ask: elsewhere a rule or guard asks anyway."""
        edits = self.request.tool in WRITES or self._preview.plan
        return bool(edits) and self._approve == "ask"

    def input_text(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self.request.input), indent=2).decode()

    def draw(
        self, most: Callable[[], int] = lambda: ANY, dark: bool | None = None
    ) -> RenderableType:
        """Renders in at most `most()` lines; `dark` is the terminal background, None if unknown."""
        request = self.request
        parts: list[RenderableType] = [transcript_blocks.title(formatting.revealed(request.title))]
        if request.reason and request.reason.strip() != self._preview.plan:
            parts.append(
                Text(formatting.one_line(formatting.revealed(request.reason)), style="dim")
            )
        if self._whole:
            parts.append(Text(formatting.revealed(self.input_text()), style="dim"))
        else:
            parts += self._preview.draw(dark)
        return _framed(
            "plan" if self._preview.plan else "permission",
            _Fitted(parts, Group(*self._lower()), most, self._scroll),
        )

    def _lower(self) -> Iterator[RenderableType]:
        """The part that is always visible."""
        if self._complaint:
            yield Text(formatting.one_line(self._complaint), style="red")
        if self._reason:
            yield self._reason.draw()
        elif self._always:
            yield self._always.draw()
        else:
            if self._preview.plan:
                yield Text(_AFTER_PLAN.get(self._approve, _AFTER_PLAN["ask"]), style="bold")
            yield self._choices()

    def _type_reason(self, line: TextLine, key: str) -> Answer | None:
        if key == ENTER:
            return Answer(self._keys["n"].id, note=line.text.strip() or None)
        if key == ESCAPE:
            self._reason = None
        line.press(key)
        return None

    def _choose_scope(self, always: Always, key: str) -> Answer | None:
        if key == ESCAPE:
            self._always = None
        option = self._keys.get("n" if always.denies else "y")
        return always.press(key, option.id if option else "deny" if always.denies else "allow")

    def _choices(self) -> Keys:
        keys = Keys()
        for key, option in self._keys.items():
            keys.add(key, _LABELS.get(key) or formatting.one_line(option.label, 40))
        if self._offers_edits:
            keys.add("w", "allow this and all edits in this session")
        keys.add("a", "always…")
        if "n" in self._keys:
            keys.add("r", "deny with a reason")
        if self.request.changeable:
            keys.add("e", "edit")
        keys.add("?", "less" if self._whole else "details")
        return keys


_LABELS = {"y": "allow", "n": "deny"}
_AFTER_PLAN = {
    "ask": "Then it continues in agent mode: every edit and command needs approval (approve ask).",
    "edits": "Then it continues in agent mode: edits run, commands need approval (approve edits).",
    "auto": "Then it continues in agent mode: edits and commands run unasked (approve auto).",
}


def _option_keys(options: Sequence[Option]) -> dict[str, Option]:
    """Maps keys to options: y and n for the first of each kind, digits for the others.

    Skips the agent's native "always" option, which would write the agent's own files; `Always`
    replaces it.
    """
    keys: dict[str, Option] = {}
    letters = {"allow": "y", "deny": "n"}
    digits = iter(_DIGITS)
    for option in options:
        if option.kind == "always":
            continue
        letter = letters[option.kind]
        key = letter if letter not in keys else next(digits, "")
        if key:
            keys[key] = option
    return keys


class Always:
    """Previews the rule to be remembered and lets the user choose its scope."""

    def __init__(self, request: PermissionRequested, folder: Path | None) -> None:
        self._request = request
        self._project = project_of(folder) if folder else None
        self.denies = False

    def press(self, key: str, option: str) -> Answer | None:
        match key:
            case "s":
                return Answer(option, remember="session")
            case "p" if self._project:
                return Answer(option, remember="project")
            case "d":
                self.denies = not self.denies
        return None

    def draw(self) -> RenderableType:
        rule = rule_for(self._request, "deny" if self.denies else "allow")
        keys = Keys()
        keys.add("s", "in this session")
        if self._project:
            keys.add("p", f"in this project ({formatting.one_line(str(self._project), 40)})")
        keys.add("d", f"{'allow' if self.denies else 'deny'} it instead")
        keys.add("esc", "back")
        assert rule is not None  # `press` opens this only if there is a rule
        return Group(Text(formatting.always(rule), style="bold"), keys)


@dataclass
class _Asking:
    question: Question
    chosen: list[int]
    line: TextLine | None


class QuestionDialog:
    def __init__(self, request: QuestionAsked) -> None:
        self.request = request
        self._left = list(request.questions)
        self._answers: dict[str, str] = {}
        self._scroll = Scroll()
        self._now = self._next()

    @property
    def typing(self) -> bool:
        """True while letters are text input and not key commands."""
        return self._now.line is not None

    def press(self, key: str) -> Answer | None:
        now = self._now
        if key in _SCROLLS:
            self._scroll.top += _SCROLLS[key]
            return None
        if key == ESCAPE and (now.line is None or not now.question.choices):
            return Answer("deny", note="The user declined to answer.")
        if now.line is not None:
            return self._type(now, now.line, key)
        count = len(now.question.choices)
        if len(key) == 1 and key in _DIGITS[:count]:
            number = _DIGITS.index(key)
            if not now.question.many:
                return self._answer(now.question.choices[number].label)
            now.chosen = sorted({*now.chosen} ^ {number})
        elif key == "t":
            now.line = TextLine("your answer")
        elif key == ENTER and now.chosen:
            return self._answer(", ".join(now.question.choices[n].label for n in now.chosen))
        return None

    def draw(
        self, most: Callable[[], int] = lambda: ANY, dark: bool | None = None
    ) -> RenderableType:
        """Renders the current question in at most `most()` lines."""
        now = self._now
        question = now.question
        parts: list[RenderableType] = [Text(clean(question.text).strip(), style="bold")]
        for number, choice in enumerate(question.choices[: len(_DIGITS)]):
            mark = ("☑ " if number in now.chosen else "☐ ") if question.many else ""
            line = Text(f"[{_DIGITS[number]}] ", style="bold")
            line.append(f"{mark}{formatting.one_line(choice.label)}", style="not bold")
            if choice.description:
                line.append(f"  {formatting.one_line(choice.description)}", style="not bold dim")
            parts.append(line)
        lower = now.line.draw() if now.line else self._keys(question)
        title = formatting.one_line(question.header) or "question"
        return _framed(title, _Fitted(parts, lower, most, self._scroll))

    def _keys(self, question: Question) -> Keys:
        keys = Keys()
        if question.many:
            keys.add("enter", "done")
        keys.add("t", "type an answer")
        keys.add("esc", "skip")
        return keys

    def _type(self, now: _Asking, line: TextLine, key: str) -> Answer | None:
        if key == ENTER and line.text.strip():
            return self._answer(line.text.strip())
        if key == ESCAPE:
            now.line = None
        line.press(key)
        return None

    def _answer(self, text: str) -> Answer | None:
        self._answers[self._now.question.text] = text
        if not self._left:
            return Answer("allow", answers=self._answers)
        self._now = self._next()
        return None

    def _next(self) -> _Asking:
        question = self._left.pop(0) if self._left else Question("")
        return _Asking(question, [], None if question.choices else TextLine("your answer"))


Dialog = PermissionDialog | QuestionDialog


def dialog_for(
    request: PermissionRequested | QuestionAsked, folder: Path, approve: str = "ask"
) -> Dialog:
    if isinstance(request, PermissionRequested):
        return PermissionDialog(request, folder, approve)
    return QuestionDialog(request)


def _framed(title: str, body: RenderableType) -> Panel:
    return Panel(body, title=Text(title), title_align="left", border_style="yellow", padding=(0, 1))
