"""Maps errors of Gemini's API that the common ACP mapping does not recognize, and exit codes."""

from __future__ import annotations

from msgspec.structs import replace

from tillerman.agents.acp import failures
from tillerman.agents.decoding.failure_reader import NO_REASON, FailureRule, FailureTable
from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.agents.gemini.launch import ROW
from tillerman.agents.jsonrpc.peer import RpcError
from tillerman.core.failure import Failure

TABLE = FailureTable(
    rules=(
        FailureRule("not_signed_in", text="API key not valid|API_KEY_INVALID"),  # status 400
        FailureRule("stream_broken", text=r"^terminated\Z"),  # in the middle of an answer
        FailureRule("api_error", text="empty response", hint="try again"),
    ),
    hints={
        "not_signed_in": ROW.login,
        "agent_failed": "trust the folder in Gemini CLI, or set `agents.gemini.trust = true`",
    },
    exits={  # with empty stdout
        41: FailureRule("not_signed_in"),
        42: FailureRule("history_lost"),
        55: FailureRule("agent_failed"),
    },
)
_MESSAGES = {"terminated": "the stream was terminated"}
_API_ERROR = "[API Error: "
LOOP = "Loop detected"
_STOPPED = (LOOP, "Maximum session turns exceeded")  # told before a result that is a success
_LOOP_HINT = "prompt again to continue; `model.disableLoopDetection` is a setting of Gemini CLI"


def failure(error: RpcError) -> Failure | None:
    """Maps an error; None for the default decoding."""
    rule = TABLE.match(error.message)
    if rule is None:
        return None
    if rule.kind == "not_signed_in":
        reported = failures.failure(error, ROW)
        return replace(reported, kind=rule.kind, retry_after=None, hint=TABLE.hint(rule))
    message = _MESSAGES.get(error.message, error.message)
    return Failure(kind=rule.kind, message=message, hint=TABLE.hint(rule))


def stopped(reason: str) -> Failure | None:
    """Maps a stop reason; over ACP a loop and the turn limit have the same one."""
    if reason != "max_turn_requests":
        return None
    return Failure(
        kind="turn_limit",
        message="Gemini CLI stopped: its model repeated itself, or made too many calls in one turn",
        hint=_LOOP_HINT,
    )


def of_result(error: Table, complaint: str) -> Failure:
    """Maps the error of a stream's `result`, and the `error` line before it.

    Its type is always "unknown", except for the turn limit; the API's error is in the message.
    """
    words = text(error, "message") or complaint or NO_REASON
    if text(error, "type") == "FatalTurnLimitedError" or words.startswith(_STOPPED):
        hint = _LOOP_HINT if words.startswith(LOOP) else "prompt again to continue"
        return Failure(kind="turn_limit", message=words, hint=hint)
    if words.startswith(_API_ERROR):
        words = words.removeprefix(_API_ERROR).rpartition("]")[0] or words
    api = parse(words.encode())
    status = count(table(api, "error"), "code") if isinstance(api, dict) else 0
    reported = RpcError(status, words)
    return failure(reported) or failures.failure(reported, ROW)
