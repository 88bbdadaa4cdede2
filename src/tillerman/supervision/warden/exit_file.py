"""How a program ended, in a small file of its own folder: nobody needs to listen when it does."""

# pathlib and contextlib would cost every start some milliseconds

from __future__ import annotations

import os

from tillerman.supervision.warden import records

NAME = "end"
FILES = ("stdout", "stderr")
_DRAFT = ".end"

Sizes = tuple[int, int, int, int]


class ExitFile:
    """`sizes` are all that it wrote to its output and error, then what of it is in the files."""

    __slots__ = ("at", "sizes", "status", "why")

    def __init__(self, status: int, at: float, sizes: Sizes, why: str) -> None:
        self.status = status  # as waitpid gives it
        self.at = at  # seconds since 1970
        self.sizes = sizes
        self.why = why  # who ended it: "", or one of the words below


LEASE = "lease"  # no harness came back for it in time
HARNESS = "harness"  # which was gone, and it was not to outlive it
WARDEN = "warden"  # which was gone
KEEPER = "keeper"  # which was gone
TOLD = "told"  # to end it


def write(folder: int, ending: ExitFile) -> None:
    lines = (
        f"status {ending.status}",
        f"at {ending.at:.3f}",
        "sizes " + " ".join(map(str, ending.sizes)),
        f"why {ending.why}",
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        number = os.open(_DRAFT, flags, 0o600, dir_fd=folder)
        try:
            os.write(number, "\n".join((*lines, "")).encode())
        finally:
            os.close(number)
        os.replace(_DRAFT, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        pass  # the disk is full, or the folder was deleted: then it is found to be lost


def read(folder: int) -> ExitFile | None:
    """None while it runs, or if nobody could write it."""
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
    """For one whose keeper can tell no more."""
    found = []
    for name in FILES:
        try:
            found.append(os.stat(name, dir_fd=folder).st_size)
        except OSError:
            found.append(0)
    output, error = found
    return output, error, output, error
