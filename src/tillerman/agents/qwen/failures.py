"""Maps error texts and exit codes of Qwen Code's stream to the failure of a turn."""

from __future__ import annotations

from tillerman.agents.acp import failures
from tillerman.agents.decoding.failure_reader import FailureRule, FailureTable
from tillerman.agents.jsonrpc.peer import RpcError
from tillerman.agents.qwen.launch import ROW
from tillerman.core.failure import Failure

_LIMIT = FailureRule("turn_limit", message="the agent reached a limit")
TABLE = FailureTable(
    rules=(FailureRule("not_signed_in", text="^No auth type is selected"),),
    hints={"not_signed_in": ROW.login, "turn_limit": "raise the limit, or prompt again"},
    exits={53: _LIMIT, 55: _LIMIT},
)


def failure(message: str) -> Failure:
    if TABLE.match(message):
        return TABLE.read(message)
    return failures.failure(RpcError(0, message), ROW)
