"""Textual driver that reads the terminal without polling, so that an idle screen uses no CPU."""

from __future__ import annotations

import os
import selectors
import signal
from codecs import getincrementaldecoder
from collections.abc import Iterable
from contextlib import suppress
from string import digits
from threading import Event
from typing import Any, TextIO

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

ESCAPE_MAX_WAIT = 0.1  # seconds to wait for the rest of an escape sequence


class _Bell(Event):
    """A threading event that a selector can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.received, self._bell_rung = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self) -> None:
        super().set()
        os.write(self._bell_rung, b"!")

    def clear(self) -> None:
        super().clear()
        os.read(self.received, 4096)


class _Parser(XTermParser):
    """Reports Alt+digit as a key, not as the character that a macOS terminal means by it."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        if len(sequence) == 2 and sequence[0] == "\x1b" and sequence[1] in digits:
            return [Key(f"alt+{sequence[1]}", None)]
        return super()._sequence_to_key_events(sequence, alt)


class _Output:
    """Ignores write errors, since the terminal may be closed at any time."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()


class QuietDriver(LinuxDriver):
    """Replaces Textual's driver, which polls its exit event ten times a second."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file: Any = _Output(self._file)
        self._bell = self.exit_event = _Bell()

    def run_input_thread(self) -> None:
        parser = _Parser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._bell.received, selectors.EVENT_READ)
            max_wait: float | None = None
            while not self._bell.is_set():
                ready = {key.fd for key, _ in selector.select(max_wait)}
                max_wait = None
                if self.fileno in ready:
                    if not (data := self._read()):  # the terminal was closed
                        selector.unregister(self.fileno)
                        os.kill(os.getpid(), signal.SIGHUP)
                    elif text := decode(data):
                        for event in parser.feed(text):
                            self.process_message(event)
                    max_wait = ESCAPE_MAX_WAIT
                for event in parser.tick():
                    self.process_message(event)

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno, 64 << 10)
        except OSError:
            return b""
