"""Maps errors of Gemini's API that the common ACP mapping does not recognize."""

from __future__ import annotations

from tillerman.agents.acp import failures
from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.agents.gemini.launch import ROW
from tillerman.agents.jsonrpc.peer import RpcError
from tillerman.core.failure import Failure

_API_ERROR = "[API Error: "


def failure(error: RpcError) -> Failure | None:
    """Maps an error; None for the default decoding."""
    if "API key not valid" in error.message or "API_KEY_INVALID" in error.message:  # status 400
        told = failures.failure(error, ROW)
        return Failure(
            kind="not_signed_in", message=told.message, status=told.status, hint=ROW.login
        )
    if error.message == "terminated":  # in the middle of an answer
        return Failure(kind="stream_broken", message="the stream was terminated", hint="try again")
    if "empty response" in error.message:
        return Failure(kind="api_error", message=error.message, hint="try again")
    return None


def of_result(error: Table, complaint: str) -> Failure:
    """Maps the error of a stream's `result`, and the `error` line before it.

    Its type is always "unknown", except for the turn limit; the API's error is in the message.
    """
    words = text(error, "message") or complaint or "the agent gave no reason"
    if text(error, "type") == "FatalTurnLimitedError":
        return Failure(kind="turn_limit", message=words, hint="prompt again to continue")
    if words.startswith(_API_ERROR):
        words = words.removeprefix(_API_ERROR).rpartition("]")[0] or words
    api = parse(words.encode())
    status = count(table(api, "error"), "code") if isinstance(api, dict) else 0
    told = RpcError(status, words)
    return failure(told) or failures.failure(told, ROW)
