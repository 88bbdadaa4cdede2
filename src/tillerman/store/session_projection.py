"""Updates a session's row from its entries, in the same transaction."""

from __future__ import annotations

import apsw

from tillerman.core.events import (
    AgentReady,
    Entry,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from tillerman.store.row_codec import text

PROMPT_CHARACTERS = 200
MOST_TOKENS = 2**40  # per report; an absurd number must not overflow the column

# The most recently used session has the highest number, and updates no index while that is so. The
# clock is not used, since it can jump.
TOUCHED = """
    CASE touched WHEN (SELECT max(touched) FROM sessions) THEN touched
    ELSE (SELECT max(touched) FROM sessions) + 1 END
"""

_UPDATE = f"""
    UPDATE sessions SET
        entries = :entries, turns = max(turns, :turns), updated_at = :at,
        status = coalesce(:status, status),
        open_turn = CASE WHEN :turn_changed THEN :open_turn ELSE open_turn END,
        title = coalesce(:title, title), prompt = coalesce(prompt, :prompt),
        model = coalesce(:model, model), mode = coalesce(:mode, mode),
        native_id = coalesce(:native_id, native_id),
        settings = CASE WHEN :approve IS NULL THEN settings
                   ELSE CAST(json_set(CAST(settings AS TEXT), '$.approve', :approve) AS BLOB) END,
        input_tokens = input_tokens + :input_tokens,
        output_tokens = output_tokens + :output_tokens,
        cached_tokens = cached_tokens + :cached_tokens,
        cost_usd = CASE WHEN :cost_usd IS NULL THEN cost_usd
                   ELSE coalesce(cost_usd, 0) + :cost_usd END,
        touched = {TOUCHED}
    WHERE number = :number
"""
_TELLING = frozenset(
    {
        AgentReady, TurnStarted, TurnEnded, UsageReported, SettingsChanged,
        PermissionRequested, QuestionAsked, RequestAnswered,
    }
)  # fmt: skip


class SessionProjection:
    """Collects the entries of a batch that change the session's row."""

    def __init__(self) -> None:
        self._telling: list[Entry] = []
        self._last: Entry | None = None

    def note(self, entry: Entry) -> None:
        self._last = entry
        if type(entry.event) in _TELLING:
            self._telling.append(entry)

    def store(self, connection: apsw.Connection, number: int, agent: str, first: int) -> None:
        """Updates the row from entries since `first`; earlier ones are already counted."""
        if self._last is None:
            return
        row: dict[str, str | int | float | None] = {
            "number": number, "entries": self._last.seq, "turns": self._last.turn,
            "at": self._last.at, "turn_changed": 0, "open_turn": None, "status": None,
            "title": None,
            "prompt": None, "model": None, "mode": None, "native_id": None, "approve": None,
            "input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "cost_usd": None,
        }  # fmt: skip
        counts = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0}
        cost: float | None = None
        for entry in self._telling:
            if entry.seq < first:
                continue
            match entry.event:
                case TurnStarted(prompt=prompt):
                    row |= {"turn_changed": 1, "open_turn": entry.turn, "status": "running"}
                    if prompt and row["prompt"] is None:
                        row["prompt"] = text(prompt)[:PROMPT_CHARACTERS]
                case TurnEnded(reason=reason):
                    row |= {"turn_changed": 1, "open_turn": None, "status": reason}
                case UsageReported() as usage:
                    for name in counts:
                        counts[name] += min(getattr(usage, name), MOST_TOKENS)
                    if usage.cost_usd is not None:
                        cost = (cost or 0.0) + usage.cost_usd
                case AgentReady(native_id=native_id, model=model):
                    row |= {"native_id": _text(native_id), "model": _text(model) or row["model"]}
                    connection.execute(
                        "INSERT OR IGNORE INTO native_ids VALUES (?, ?, ?)",
                        (agent, _text(native_id), number),
                    )
                case SettingsChanged(model=model, mode=mode, title=title, approve=approve):
                    row |= {
                        "approve": _text(approve) or row["approve"],
                        "model": _text(model) or row["model"],
                        "mode": _text(mode) or row["mode"],
                        "title": _text(title) or row["title"],
                    }
                case PermissionRequested(request_id=request) | QuestionAsked(request_id=request):
                    connection.execute(
                        "INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)",
                        (number, _text(request), entry.seq, entry.at),
                    )
                case RequestAnswered(request_id=request):
                    connection.execute(
                        "DELETE FROM requests WHERE session = ? AND request_id = ?",
                        (number, _text(request)),
                    )
        connection.execute(_UPDATE, row | counts | {"cost_usd": cost})


def _text(value: str | None) -> str | None:
    return value and text(value)
