"""Error codes of the two OpenAI APIs."""

from __future__ import annotations

from tillerman.testing.model_double.api import Body
from tillerman.testing.model_double.script import Fail

_CODES = {
    400: "invalid_request_error",
    401: "invalid_api_key",
    402: "billing_not_active",
    403: "permission_denied",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
_OWN_WORDS = {"overflow": "context_length_exceeded", "quota": "insufficient_quota"}


def error(fail: Fail) -> Body:
    words = {None: _CODES.get(fail.status, "server_error")} | _OWN_WORDS
    code = words.get(fail.kind, fail.kind)
    return {"message": fail.message, "type": code, "code": code, "param": None}


def failure(fail: Fail) -> tuple[int, Body]:
    status = 503 if fail.status == 529 else fail.status  # a status of another vendor
    return status, {"error": error(fail)}


def failure_of_a_compatible(fail: Fail) -> tuple[int, Body]:
    """An error of an OpenAI-compatible API: an exhausted quota is not a rate limit there."""
    status, body = failure(fail)
    return 402 if fail.kind == "quota" else status, body
