"""Reads files attached to a prompt, with a size cap and a guessed MIME type."""

from __future__ import annotations

from pathlib import Path

from tillerman.core.errors import UsageError

ATTACHMENT_CAP = 32 * 1024 * 1024


def read(path: Path, shown: str = "") -> tuple[str, str, bytes]:
    """Returns name, MIME type and bytes. `shown` is the name used in error messages."""
    shown = shown or str(path)
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{shown}: not a file", hint="give the path of a file")
        with path.open("rb") as file:
            data = file.read(ATTACHMENT_CAP + 1)
    except OSError as error:
        raise UsageError(
            f"{shown}: {error.strerror}", hint="check that it exists, and its permissions"
        ) from None
    if len(data) > ATTACHMENT_CAP:
        raise UsageError(
            f"{shown}: larger than {ATTACHMENT_CAP // 2**20} MB",
            hint="name its path in the prompt instead, and let the agent read it",
        )
    return path.name, mime_of(path.name, data), data


def mime_of(name: str, data: bytes) -> str:
    import mimetypes

    return mimetypes.guess_type(name)[0] or _guess(data)


def _guess(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"
