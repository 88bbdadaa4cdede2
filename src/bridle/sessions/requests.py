"""The open requests of one session: each is answered once, by policy, person or clock."""

from __future__ import annotations

from bridle.core.errors import RequestNotOpen, UsageError
from bridle.core.events import Answer, PermissionRequested, QuestionAsked

Request = PermissionRequested | QuestionAsked


class Requests:
    def __init__(self) -> None:
        self._open: dict[str, Request] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._open

    def ids(self) -> list[str]:
        return list(self._open)

    def open(self, request: Request) -> None:
        self._open[request.request_id] = request

    def settle(self, request_id: str, answer: Answer) -> Request:
        """Closes the request, or says that somebody else was first."""
        request = self._open.get(request_id)
        if request is None:
            raise RequestNotOpen(request_id)
        if isinstance(request, PermissionRequested):
            offered = {option.id for option in request.options}
            if answer.option not in offered | {"allow", "deny"}:
                raise UsageError(
                    f"request {request_id} has no option {answer.option!r}",
                    hint=f"it offers: {', '.join(sorted(offered))}",
                )
        return self._open.pop(request_id)

    def withdraw(self, request_id: str) -> None:
        """The agent asks no longer, whatever it says was the answer."""
        self._open.pop(request_id, None)


def allows(request: Request, answer: Answer) -> bool:
    """By the kind of the option that was chosen: agents name theirs as they like."""
    if isinstance(request, PermissionRequested):
        for option in request.options:
            if option.id == answer.option:
                return option.kind != "deny"
    return answer.option != "deny"
