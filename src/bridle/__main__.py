"""The `bridle` program: tells its version at once, and leaves all else to the command line."""

from __future__ import annotations

import sys


def main(words: list[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    if words in (["--version"], ["-V"]) and sys.stdout:
        from bridle import __version__

        sys.stdout.write(f"bridle {__version__}\n")
        return 0
    from bridle.surfaces.cli.main import main as command_line

    return command_line(words)


if __name__ == "__main__":
    sys.exit(main())
