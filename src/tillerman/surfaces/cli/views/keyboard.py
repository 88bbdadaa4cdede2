"""Reads single keys from the terminal without echo, and restores the terminal mode."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
import termios
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from tillerman.surfaces.rendering.special_keys import (
    BACKSPACE,
    CLEAR,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    PAGE_UP,
    UP,
)

_SAME = {"\n": ENTER, "\b": BACKSPACE}
_CONTROLS = frozenset({ENTER, BACKSPACE, CLEAR})
_WHOLE = frozenset({ESCAPE, UP, DOWN, PAGE_UP, PAGE_DOWN})
_APPLICATION = {"\x1bOA": UP, "\x1bOB": DOWN}
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\x1b])")  # escape sequences amid text


class Keyboard:
    def __init__(self, fd: int, *, own: bool) -> None:
        self._fd = fd
        self._own = own
        self._before = termios.tcgetattr(fd)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._keys: deque[str] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self.away = False  # another program uses the terminal

    @classmethod
    def find(cls) -> Keyboard | None:
        """None if no user can type: there is no terminal, or the program runs in the background."""
        fd, own = 0, False
        try:
            if not sys.stdin.isatty():  # stdin carries the prompt
                fd, own = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC), True
            if os.tcgetpgrp(fd) == os.getpgrp():
                return cls(fd, own=own)
        except (OSError, ValueError, AttributeError, termios.error):
            pass
        if own:
            os.close(fd)
        return None

    def open(self) -> None:
        self._quiet()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, self._read)
        loop.add_signal_handler(signal.SIGCONT, self._quiet)  # the shell may have changed the mode

    def close(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        loop.remove_signal_handler(signal.SIGCONT)
        self.restore()
        if self._own:
            os.close(self._fd)

    def restore(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        self.away = True
        asyncio.get_running_loop().remove_reader(self._fd)
        self.restore()
        try:
            yield
        finally:
            self.away = False
            self._quiet()
            self.forget()
            asyncio.get_running_loop().add_reader(self._fd, self._read)

    def forget(self) -> None:
        """Discards keys typed before a question was shown."""
        termios.tcflush(self._fd, termios.TCIFLUSH)
        self._keys.clear()

    async def key(self) -> str:
        """The next key: a character, a control key, or a pasted text."""
        while not self._keys:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._keys.popleft()

    def _quiet(self) -> None:
        mode = termios.tcgetattr(self._fd)
        mode[3] &= ~(termios.ICANON | termios.ECHO)  # ISIG stays set: Ctrl-C is a signal
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._fd, termios.TCSANOW, mode)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except OSError:
            data = b""
        if not data:  # the terminal was closed
            asyncio.get_running_loop().remove_reader(self._fd)
        self._keys.extend(_keys(self._decoder.decode(data)))
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(None)


def _keys(text: str) -> Iterator[str]:
    """Splits input into keys; several printable characters at once are one pasted text."""
    text = _APPLICATION.get(text, text)
    if text in _WHOLE:
        yield text
        return
    text = "".join(_SAME.get(c, c) for c in _SEQUENCE.sub("", text))
    text = "".join(c for c in text if c.isprintable() or c in _CONTROLS)
    body = text.rstrip(ENTER)
    if sum(c.isprintable() for c in body) > 1 and not _CONTROLS & {*body} - {ENTER}:
        yield body.replace(ENTER, " ")
        yield from text[len(body) :]
    else:
        yield from text
