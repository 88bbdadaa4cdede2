"""Maps the CLI's result or, if there is none, its stderr to the failure of a turn."""

from __future__ import annotations

import re

from tillerman.agents.decoding.failure_reader import NO_REASON, FailureRule, FailureTable
from tillerman.agents.decoding.fields import Table, text
from tillerman.core.agent import Exit
from tillerman.core.failure import Failure, history_lost

SIGN_IN = "run `cursor-agent login` or set CURSOR_API_KEY"
_MODELS = "`tillerman models -a cursor` lists the models"
_NEXT_CYCLE = "wait for the next cycle, or use another agent or model"
_RAISE_LIMIT = "raise the limit, or use another agent or model"
_ASK_CLI = "run `cursor-agent` in a terminal for details"
_TOO_OLD = "this version is too old: run `cursor-agent update`"

TABLE = FailureTable(
    rules=(
        FailureRule("not_signed_in", text="authentication required"),
        FailureRule(
            "not_signed_in",
            text="api key is invalid",
            hint="set another CURSOR_API_KEY, or unset it",
        ),
        FailureRule("not_signed_in", text="not logged in"),
        FailureRule("model_not_found", text="cannot use this model"),
        FailureRule(
            "billing", text="named models unavailable", hint="use -m auto, or upgrade the plan"
        ),
        FailureRule("billing", text="usage limit", hint=_NEXT_CYCLE),
        FailureRule("billing", text="spend limit", hint=_RAISE_LIMIT),
        FailureRule("billing", text="actionrequirederror", hint=_ASK_CLI),
        FailureRule("api_error", text="provider returned an error"),
        FailureRule("rate_limited", text="rate limit"),
        FailureRule("denied", text="workspace trust required"),
        FailureRule(
            "agent_failed",
            text="workspace directory does not exist",
            hint="use an existing folder",
        ),
        FailureRule("agent_failed", text="unknown option", hint=_TOO_OLD),
    ),
    hints={
        "not_signed_in": SIGN_IN,
        "model_not_found": _MODELS,
        "denied": "run `cursor-agent` in this folder once",
    },
)


def of_result(result: Table, complaint: str) -> Failure | None:
    """Maps a result; None if it reports success. `complaint`: a plain-text line before it."""
    if result.get("is_error") is not True and text(result, "subtype") == "success":
        return None
    message = text(result, "result") or complaint or NO_REASON
    return _known(message) or Failure(kind="agent_failed", message=message, hint="try again")


def of_exit(exit: Exit, stderr: str, complaint: str) -> Failure | None:
    """Maps the exit; None if nothing but the exit code is known."""
    if exit.clean:
        return None
    return _known(stderr) or (_known(complaint) if complaint else None)


def other_conversation(asked: str, opened: str) -> Failure:
    return history_lost(f"Cursor was asked to resume conversation {asked}, but opened {opened}")


def _known(message: str) -> Failure | None:
    rule = TABLE.match(message)
    if rule is None:
        return None
    return Failure(kind=rule.kind, message=_line(message, rule.text), hint=TABLE.hint(rule))


def _line(message: str, words: str) -> str:
    """The line that contains the words, shortened: one of them lists two hundred models."""
    line = next(
        line for line in message.split("\n") if re.search(words, line, re.IGNORECASE)
    ).strip()
    return line.partition(" Available models:")[0].removeprefix("Error: ").removeprefix("⚠ ")
