"""Reads the API's errors, which come in three forms, and says what to do next."""

from __future__ import annotations

from msgspec import Struct

from tillerman.agents.decoding.failure_reader import (
    KNOWN_STATUS,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
)
from tillerman.agents.decoding.fields import parse, table, text
from tillerman.core.errors import AgentError
from tillerman.core.failure import Failure

NAME = "cursor-cloud"
NEED_KEY = "set CURSOR_API_KEY (cursor.com/dashboard), or `api_key` in the config"
INVALID = "invalid_answer"  # a code of ours
SHOWN = 500  # characters of a body that is not JSON

TABLE = FailureTable(
    rules=(
        FailureRule("not_signed_in", status=401, hint=NEED_KEY),
        FailureRule(
            "not_signed_in",
            name="feature_unavailable",
            hint="enable cloud agents for this account, or use a key of another",
        ),
        FailureRule("not_signed_in", status=403, hint="use a key that may do this"),
        FailureRule(
            "agent_failed",
            name="agent_busy",
            hint="wait for its run, or `tillerman cloud stop ID` ends it",
        ),
        FailureRule(
            "agent_failed",
            name="agent_id_conflict",
            hint="`tillerman cloud list` shows the agent with this id",
        ),
        FailureRule("agent_failed", name="run_not_cancellable", hint="its run has ended already"),
        FailureRule(
            "history_lost", name="stream_expired", hint="`tillerman cloud show ID` has its result"
        ),
        FailureRule("agent_failed", status=404, hint="`tillerman cloud list` shows your agents"),
        FailureRule("agent_failed", status=409, hint="`tillerman cloud show ID` shows its state"),
        FailureRule("agent_failed", status=400, hint="change the request as the message says"),
        FailureRule("agent_failed", status=422, hint="change the request as the message says"),
        *KNOWN_STATUS,
        OTHER_STATUS,
    ),
)


class ApiAnswer(Struct, frozen=True):
    """What an error response says."""

    code: str
    message: str


class CloudRequestFailed(AgentError):
    """The API refused a request, or could not be reached."""

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        failure: Failure,
        code: str = "",
        sent: bool = True,
    ) -> None:
        super().__init__(NAME, message, hint=hint)
        self.failure = failure
        self.code = code  # the API's own
        self.sent = sent  # False: the request surely did not arrive
        if failure.kind in ("not_signed_in", "billing"):
            self.exit_code = 3

    @property
    def status(self) -> int | None:
        return self.failure.status


def read_error(body: bytes) -> ApiAnswer:
    """`{"error": {"code", "message"}}`, the same flat, or `{"error": TITLE, "message"}`."""
    found = parse(body)
    if isinstance(found, str):
        shown = " ".join(body[: 4 * SHOWN].decode("utf-8", "replace").split())[:SHOWN]
        return ApiAnswer("", shown)
    if nested := table(found, "error"):
        return ApiAnswer(text(nested, "code"), text(nested, "message"))
    title = text(found, "error")
    code = text(found, "code") or ("" if " " in title or title.istitle() else title)
    return ApiAnswer(code, text(found, "message") or title)


def refused(status: int, body: bytes, retry_after: float | None = None) -> CloudRequestFailed:
    answer = read_error(body)
    said = answer.message or f"no reason (HTTP status {status})"
    rule = TABLE.match(said, answer.code, status) or OTHER_STATUS
    hint = TABLE.hint(rule, status)
    if rule.kind == "rate_limited" and retry_after:
        hint = f"try again in {retry_after:.0f} s"
    failure = Failure(
        kind=rule.kind, message=said, status=status, retry_after=retry_after, hint=hint
    )
    return CloudRequestFailed(
        f"the cloud API answered {status}: {said}", hint=hint, failure=failure, code=answer.code
    )


def unreachable(where: str, why: str, *, sent: bool) -> CloudRequestFailed:
    message = f"no answer from {where}: {why}"
    hint = "check the network and try again"
    return CloudRequestFailed(
        message,
        hint=hint,
        failure=Failure(kind="api_error", message=message, hint=hint),
        sent=sent,
    )


def invalid(what: str) -> CloudRequestFailed:
    """The API answered with something that cannot be used."""
    message = f"the cloud API sent {what}"
    hint = "update tillerman, or report this with the output of --debug"
    failure = Failure(kind="api_error", message=message, hint=hint)
    return CloudRequestFailed(message, hint=hint, failure=failure, code=INVALID)
