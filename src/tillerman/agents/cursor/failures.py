"""Maps the CLI's result or, if there is none, its stderr to the failure of a turn."""

from __future__ import annotations

from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, text
from tillerman.core.agent import Exit
from tillerman.core.failure import Failure, FailureKind, history_lost

SIGN_IN = "run `cursor-agent login` or set CURSOR_API_KEY"


class _Sign(NamedTuple):
    words: str  # in lower case
    kind: FailureKind
    hint: str


_SIGNS = (
    _Sign("authentication required", "not_signed_in", SIGN_IN),
    _Sign("api key is invalid", "not_signed_in", "set another CURSOR_API_KEY, or unset it"),
    _Sign("not logged in", "not_signed_in", SIGN_IN),
    _Sign(
        "cannot use this model", "model_not_found", "`tillerman models -a cursor` lists the models"
    ),
    _Sign("named models unavailable", "billing", "use -m auto, or upgrade the plan"),
    _Sign("usage limit", "billing", "wait for the next cycle, or use another agent or model"),
    _Sign("spend limit", "billing", "raise the limit, or use another agent or model"),
    _Sign("actionrequirederror", "billing", "run `cursor-agent` in a terminal for details"),
    _Sign("provider returned an error", "api_error", "try again in a moment"),
    _Sign("rate limit", "rate_limited", "wait, or use another agent or model"),
    _Sign("workspace trust required", "denied", "run `cursor-agent` in this folder once"),
    _Sign("workspace directory does not exist", "agent_failed", "use an existing folder"),
    _Sign("unknown option", "agent_failed", "this version is too old: run `cursor-agent update`"),
)


def of_result(result: Table, complaint: str) -> Failure | None:
    """Maps a result; None if it reports success. `complaint`: a plain-text line before it."""
    if result.get("is_error") is not True and text(result, "subtype") == "success":
        return None
    message = text(result, "result") or complaint or "the agent gave no reason"
    return _known(message) or Failure(kind="agent_failed", message=message, hint="try again")


def of_exit(exit: Exit, stderr: str, complaint: str) -> Failure | None:
    """Maps the exit; None if nothing but the exit code is known."""
    if exit.clean:
        return None
    return _known(stderr) or (_known(complaint) if complaint else None)


def other_conversation(asked: str, opened: str) -> Failure:
    return history_lost(f"Cursor was asked to resume conversation {asked}, but opened {opened}")


def _known(said: str) -> Failure | None:
    lower = said.lower()
    for words, kind, hint in _SIGNS:
        if words in lower:
            return Failure(kind=kind, message=_sentence(said, lower.index(words)), hint=hint)
    return None


def _sentence(said: str, at: int) -> str:
    """The line that contains the text, shortened: one of them lists two hundred models."""
    start = said.rfind("\n", 0, at) + 1
    line = said[start:].partition("\n")[0].strip()
    return line.partition(" Available models:")[0].removeprefix("Error: ").removeprefix("⚠ ")
