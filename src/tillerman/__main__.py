"""Entry point of the `tillerman` program: prints the version, or runs the command line."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words in (["--version"], ["-V"]) and sys.stdout:
        from tillerman._version import __version__

        try:
            sys.stdout.write(f"tillerman {__version__}\n")
            sys.stdout.flush()
        except OSError as error:
            if sys.stderr:
                sys.stderr.write(f"error: the output could not be written: {error.strerror}\n")
            return 1
        return 0
    from tillerman.surfaces.cli.views.std_streams import replace_closed_streams

    replace_closed_streams()
    head = None
    if words[:1] == ["run"] and not {"-h", "--help"} & set(words):
        from tillerman.surfaces.cli.preconditions import satisfied

        if satisfied(words):
            from tillerman.sessions.prestart import head_start

            head = head_start()
    from tillerman.surfaces.cli.main import main as command_line

    return command_line(words, head)


def program() -> NoReturn:
    """Runs the program and exits with `os._exit`.

    Interpreter shutdown with all loaded modules takes longer than the overhead of a turn, and
    everything that matters is already closed and flushed.
    """
    if sys.getfilesystemencoding() == "ascii":  # LC_ALL=C; typed input is UTF-8 nevertheless
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    gc.set_threshold(50_000)  # startup allocations are not garbage; scanning them took 10% of it
    try:
        code = main()
    except (MemoryError, SystemError):  # too early for any module that reports it
        os.write(2, b"error: there is not enough memory\n")
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  contextlib is not loaded yet for `--version`
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # the stream is closed or has no reader
    os._exit(code)


if __name__ == "__main__":
    program()
