"""Exit file of a program: its exit status in its folder, for readers that did not listen.

It exists from the start, since creating a file may take longer than a short program. It is empty
while the program runs, and written at once.
"""

# pathlib and contextlib would cost every start some milliseconds

from __future__ import annotations

import os

from tillerman.supervision.warden import records

NAME = "end"
FILES = ("stdout", "stderr")

Sizes = tuple[int, int, int, int]


class ExitFile:
    """`sizes`: bytes written to stdout and stderr, then bytes of them stored in the files."""

    __slots__ = ("at", "sizes", "status", "why")

    def __init__(self, status: int, at: float, sizes: Sizes, why: str) -> None:
        self.status = status  # as returned by waitpid
        self.at = at  # seconds since the epoch
        self.sizes = sizes
        self.why = why  # why it was ended: "", or one of the constants below


LEASE = "lease"  # no harness reconnected in time
HARNESS = "harness"  # the harness ended, and the program was not lasting
WARDEN = "warden"  # the warden ended
KEEPER = "keeper"  # the keeper ended
REQUESTED = "requested"  # on request


def write(folder: int, ending: ExitFile) -> None:
    lines = (
        f"status {ending.status}",
        f"at {ending.at:.3f}",
        "sizes " + " ".join(map(str, ending.sizes)),
        f"why {ending.why}",
    )
    # no O_TRUNC: ext4 would flush it when it is closed
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        number = os.open(NAME, flags, 0o600, dir_fd=folder)
        try:
            os.write(number, "\n".join((*lines, "")).encode())
        finally:
            os.close(number)
    except OSError:
        pass  # the disk is full, or the folder was deleted: then the exit status counts as lost


def read(folder: int) -> ExitFile | None:
    """Reads the exit file. Returns None while the program runs, or if it was never written."""
    try:
        lines = records.load(NAME, dir_fd=folder)
        output, error, output_kept, error_kept = map(int, lines["sizes"][0])
        return ExitFile(
            int(lines["status"][0][0]),
            float(lines["at"][0][0]),
            (output, error, output_kept, error_kept),
            lines["why"][0][0],
        )
    except (OSError, KeyError, IndexError, ValueError):
        return None


def sizes_on_disk(folder: int) -> Sizes:
    """Returns the file sizes, for a program whose keeper can no longer report them."""
    found = []
    for name in FILES:
        try:
            found.append(os.stat(name, dir_fd=folder).st_size)
        except OSError:
            found.append(0)
    output, error = found
    return output, error, output, error
