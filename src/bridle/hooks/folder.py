"""The folder where a hook's shim finds the server: its socket, or its port, and the tokens.

Only its owner can enter it, and a shim looks at that before it trusts what lies there.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from bridle.hooks.messages import TOKEN_BYTES
from bridle.paths import LONGEST_SOCKET, private_folder

SOCKET, PORT, KEY = "socket", "port", "key"


class Tokens(msgspec.Struct, frozen=True):
    """Two, so that whoever took the server's place and was asked still cannot answer."""

    ask: bytes
    answer: bytes


def make_folder(folder: Path) -> Path:
    """The folder itself, or one with a short name for it: paths of sockets are short."""
    folder = folder.absolute()
    if len(os.fsencode(folder / SOCKET)) > LONGEST_SOCKET:
        from hashlib import sha256

        mine = private_folder(Path("/tmp") / f"bridle-{os.getuid()}")
        folder = mine / f"hooks-{sha256(os.fsencode(folder)).hexdigest()[:24]}"
    private_folder(folder)
    remove_files(folder)  # of an owner that was killed
    return folder


def remove_files(folder: Path) -> None:
    for name in (SOCKET, PORT, KEY):
        (folder / name).unlink(missing_ok=True)


def new_tokens(folder: Path) -> Tokens:
    tokens = Tokens(*(os.urandom(TOKEN_BYTES).hex().encode() for _ in range(2)))
    _write(folder / KEY, b"%b %b\n" % (tokens.ask, tokens.answer))
    return tokens


def listen_here(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(folder / SOCKET))
        (folder / SOCKET).chmod(0o600)  # nobody else can enter the folder meanwhile
    except OSError:
        listening.close()
        raise
    return listening


def listen_on_loopback(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    _write(folder / PORT, b"%d\n" % listening.getsockname()[1])
    return listening


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, for the user alone."""
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    draft.replace(path)
