"""Exit codes of the command line: of a failure, of a turn, and of all turns of a command.

An error that no turn stored has its own code, in `tillerman.core.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.errors import CANCELLED, EXIT_CODES

if TYPE_CHECKING:  # every command loads this module
    from collections.abc import Iterable
    from typing import Literal

    from tillerman.core.failure import Failure

NOT_READY = EXIT_CODES["not_signed_in"]
TIMED_OUT = EXIT_CODES["timed_out"]
BROKEN_PIPE = 141  # as a program ended by SIGPIPE
_FAILED = 1


def exit_code(failure: Failure | None) -> int:
    return EXIT_CODES.get(failure.kind, _FAILED) if failure else _FAILED


def turn_exit_code(
    reason: Literal["completed", "failed", "cancelled"], failure: Failure | None
) -> int:
    match reason:
        case "completed":
            return 0
        case "cancelled":
            return CANCELLED
        case "failed":
            return exit_code(failure)


def run_exit_code(turns: Iterable[int], *, stopped_late: bool) -> int:
    """The code of the first failed turn; `stopped_late`: a limit stopped background work."""
    codes = list(turns)
    if not codes:
        return _FAILED
    return next((code for code in codes if code), TIMED_OUT if stopped_late else 0)
