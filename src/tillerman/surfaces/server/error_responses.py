"""Errors of the API: the error object of `--json`, and the HTTP status of each error."""

from __future__ import annotations

import errno
import logging

import msgspec
from starlette.responses import Response

from tillerman.core import errors
from tillerman.core.errors import TillermanError, kind_of
from tillerman.store.row_codec import encode
from tillerman.surfaces.machine_errors import INTERNAL, SYSTEM, error_object, machine_error
from tillerman.workspace.git.repository_state import NoRepository

_log = logging.getLogger("tillerman")

# The first class that matches decides.
_STATUSES: tuple[tuple[type[TillermanError], int], ...] = (
    (errors.SessionNotFound, 404),
    (errors.AgentUnknown, 404),
    (NoRepository, 404),
    (errors.PromptRefused, 422),
    (errors.SessionError, 409),
    (errors.AgentNotInstalled, 424),
    (errors.NotUsable, 424),
    (errors.AgentError, 422),
    (errors.StorageFull, 507),
    (errors.StoreError, 503),
    (errors.SupervisionUnavailable, 422),
    (errors.IsolationUnavailable, 422),
    (errors.UsageError, 400),
    (errors.ConfigError, 400),
)


DESCRIBED = "GET /api/v1/openapi.json describes every request"


class ErrorDetail(msgspec.Struct, frozen=True):
    kind: str
    message: str
    hint: str
    exit_code: int


class ErrorBody(msgspec.Struct, frozen=True):
    """An error, as every interface for programs gives it."""

    error: ErrorDetail


class HttpError(TillermanError):
    """A request that is refused with this status; `kind` names the reason for programs."""

    exit_code = 2

    def __init__(self, status: int, kind: str, message: str, *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.kind = kind


def error_response(error: Exception) -> Response:
    match error:
        case HttpError():
            return _response(error.status, error.kind, error.message, error.hint)
        case TillermanError():
            kind = kind_of(type(error))
            return _response(_status(error), kind, error.message, error.hint, error.exit_code)
        case msgspec.MsgspecError():
            return _response(400, "usage_error", str(error), DESCRIBED)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return _response(400, "usage_error", "a path is too long", DESCRIBED)
    if told := machine_error(error):
        return _response(503, SYSTEM, *told, exit_code=1)
    _log.exception("a request failed", exc_info=error)
    return _response(500, INTERNAL, f"{type(error).__name__}: {error}", exit_code=1)


def refusal_body(status: int, message: str, hint: str = "") -> bytes:
    kind = {401: "not_authorized", 403: "forbidden", 421: "wrong_host", 429: "too_many_attempts"}
    return encode(error_object(kind.get(status, "refused"), message, hint, 2))


def _status(error: TillermanError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _response(status: int, kind: str, message: str, hint: str = "", exit_code: int = 2) -> Response:
    body = encode(error_object(kind, message, hint, exit_code))
    return Response(body, status, media_type="application/json")
