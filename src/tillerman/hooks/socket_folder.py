"""Private folder in which a hook shim finds the server: its socket or port, and the tokens.

Only the owner can enter it, and a shim checks that before it trusts the files in it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tillerman.hooks.protocol import TOKEN_BYTES
from tillerman.paths import LONGEST_SOCKET, private_folder, write_whole

SOCKET, PORT, KEY = "socket", "port", "key"


class Tokens(msgspec.Struct, frozen=True):
    """Two tokens, so that a process in the server's place cannot answer what it receives."""

    ask: bytes
    answer: bytes


def make_folder(folder: Path) -> Path:
    folder = private_folder(folder.absolute())
    remove_files(folder)  # left by an owner that was killed
    return folder


def remove_files(folder: Path) -> None:
    for name in (SOCKET, PORT, KEY):
        (folder / name).unlink(missing_ok=True)


def new_tokens(folder: Path) -> Tokens:
    tokens = Tokens(*(os.urandom(TOKEN_BYTES).hex().encode() for _ in range(2)))
    write_whole(folder / KEY, b"%b %b\n" % (tokens.ask, tokens.answer))
    return tokens


def listen_here(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short_name(folder) as near:
            listening.bind(str(near / SOCKET))
        (folder / SOCKET).chmod(0o600)  # no other user can enter the folder meanwhile
    except OSError:
        listening.close()
        raise
    return listening


def listen_on_loopback(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    write_whole(folder / PORT, b"%d\n" % listening.getsockname()[1])
    return listening


@contextmanager
def _short_name(folder: Path) -> Iterator[Path]:
    """A short path to the folder, since socket paths are limited. The shim uses a relative path."""
    if len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET:
        yield folder
        return
    link = private_folder(Path("/tmp") / f"tillerman-{os.getuid()}") / os.urandom(8).hex()
    link.symlink_to(folder, target_is_directory=True)
    try:
        yield link
    finally:
        link.unlink()
