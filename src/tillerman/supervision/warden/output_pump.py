"""Moves a program's output from pipes to files, and feeds its stdin.

Runs in the keeper with only the standard library. Bytes go from pipe to file inside the kernel;
beyond the cap they are counted and dropped, so that the program never blocks on a reader.
"""

# contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import errno
import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FEED_CAP = 1 << 20  # bytes buffered for a program that does not read
_STEP = 1 << 20
_DRAIN_WITHIN = 1.0  # seconds; a pipe inherited by another tree may be written forever
_SPLICE = getattr(os, "splice", None)
_NONBLOCK = 2  # SPLICE_F_NONBLOCK


class OutputStream:
    """One output: the read end of the program's pipe, and the file."""

    def __init__(self, pipe: int, file: int, cap: int) -> None:
        self.pipe = pipe
        self.total = 0
        self.stored = 0
        self._file = file
        self._cap = cap
        self._cut = False
        self._splices = _SPLICE is not None
        os.set_blocking(pipe, False)

    @property
    def files(self) -> set[int]:
        return {self.pipe, self._file}

    def move(self) -> bool:
        """Moves some of the pending bytes; False when there are none now, or no more."""
        try:
            count = self._drop() if self._cut else self._store()
        except BlockingIOError:
            return False
        self.total += count
        if not count:
            self.close()
        return count > 0

    def close(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    def _store(self) -> int:
        room = self._cap - self.stored
        if room <= 0:
            return self._cut_off(f"output beyond {self._cap} bytes was dropped")
        try:
            if not self._splices:
                return self._copy(min(room, _STEP))
            assert _SPLICE
            count: int = _SPLICE(self.pipe, self._file, min(room, _STEP), flags=_NONBLOCK)
        except BlockingIOError:
            raise
        except OSError as error:
            if self._splices and error.errno == errno.EINVAL:
                self._splices = False  # the file system does not support splice
                return self._store()
            return self._cut_off(f"output was dropped: {os.strerror(error.errno or 0)}")
        self.stored += count
        return count

    def _copy(self, most: int) -> int:
        data = os.read(self.pipe, most)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
        except OSError as error:
            self._note(f"output was dropped: {os.strerror(error.errno or 0)}")
        self.stored += done
        return len(data)

    def _cut_off(self, why: str) -> int:
        """Drops the first bytes beyond the cap and notes that in the file."""
        count = self._drop()
        if count:
            self._note(why)
        return count

    def _note(self, why: str) -> None:
        self._cut = True
        try:
            os.write(self._file, f"\n[tillerman: {why}]\n".encode())
        except OSError:
            pass  # the disk is full; the sizes show it as well

    def _drop(self) -> int:
        return len(os.read(self.pipe, 65536))


class StdinFeed:
    """The program's stdin: the bytes pending for its pipe."""

    def __init__(self, pipe: int, data: bytes, *, eof: bool) -> None:
        self.pipe = pipe
        self._waits = bytearray(data)
        self._eof = eof
        os.set_blocking(pipe, False)

    def add(self, data: bytes, *, eof: bool) -> str:
        """Adds all or nothing. Returns `taken`, `full` or `closed`."""
        if self.pipe < 0 or self._eof:
            return "closed"
        if len(self._waits) + len(data) > FEED_CAP:
            return "full"
        self._waits += data
        self._eof = eof
        self.push()
        return "taken"

    def push(self) -> None:
        try:
            while self._waits:
                del self._waits[: os.write(self.pipe, self._waits[:65536])]
        except BlockingIOError:
            return
        except OSError:  # the read end is closed
            self.close()
            return
        if self._eof:
            self.close()

    @property
    def waits(self) -> bool:
        return self.pipe >= 0 and bool(self._waits)

    def close(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1
        self._waits.clear()


class OutputPump:
    """Stdin, stdout and stderr of one program, in the keeper's loop."""

    def __init__(
        self, folder: int, output: OutputStream, error: OutputStream, feed: StdinFeed | None
    ) -> None:
        self.folder = folder
        self._streams = (output, error)
        self._feed = feed

    @property
    def files(self) -> set[int]:
        found = {self.folder}.union(*(stream.files for stream in self._streams))
        return found | ({self._feed.pipe} if self._feed else set())

    @property
    def pipes(self) -> set[int]:
        """Returns our pipe ends, which the warden closes once the keeper has them."""
        found = {stream.pipe for stream in self._streams}
        return found | ({self._feed.pipe} if self._feed else set())

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Returns bytes written to stdout and stderr, then bytes of them stored in the files."""
        output, error = self._streams
        return output.total, error.total, output.stored, error.stored

    @property
    def total(self) -> int:
        return sum(stream.total for stream in self._streams)

    def begin(self, ready: select.poll) -> None:
        for stream in self._streams:
            ready.register(stream.pipe, select.POLLIN)
        if self._feed:
            self._feed.push()
            if self._feed.waits:
                ready.register(self._feed.pipe, select.POLLOUT)

    def serve(self, events: set[int], ready: select.poll) -> None:
        for stream in self._streams:
            if (pipe := stream.pipe) in events:
                stream.move()
                if stream.pipe < 0:
                    ready.unregister(pipe)
        if self._feed and self._feed.pipe in events:
            with _Unregistered(ready, self._feed):
                self._feed.push()

    def feed(self, data: bytes, ready: select.poll, *, eof: bool) -> str:
        if not self._feed:
            return "closed"
        with _Unregistered(ready, self._feed):
            return self._feed.add(data, eof=eof)

    def drain(self) -> None:
        """Moves what is still in the pipes, once all writers of the tree have ended."""
        deadline = time.monotonic() + _DRAIN_WITHIN
        for stream in self._streams:
            while stream.pipe >= 0 and stream.move() and time.monotonic() < deadline:
                pass


class _Unregistered:
    """Registers stdin only while bytes wait: a pipe without a reader is always ready in poll."""

    def __init__(self, ready: select.poll, feed: StdinFeed) -> None:
        self._ready = ready
        self._feed = feed

    def __enter__(self) -> None:
        if self._feed.waits:
            self._ready.unregister(self._feed.pipe)

    def __exit__(self, *_: object) -> None:
        if self._feed.waits:
            self._ready.register(self._feed.pipe, select.POLLOUT)


def open_flow(
    files: Sequence[int], stdin: bytes | bool | None, cap: int
) -> tuple[OutputPump, tuple[int, int, int]]:
    """Returns the pump for folder, stdout and stderr files, and the program's three pipe ends."""
    its_input, feed = open_input(stdin)
    (our_output, its_output), (our_error, its_error) = os.pipe(), os.pipe()
    flow = pump_of(files, (our_output, our_error), feed, cap)
    return flow, (its_input, its_output, its_error)


def open_input(stdin: bytes | bool | None) -> tuple[int, StdinFeed | None]:
    """Returns the program's end of its input, and the feed of the other end.

    `stdin`: None is no input, bytes are all of it, True keeps it open for more.
    """
    if stdin is None or stdin is False:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None
    its_input, ours = os.pipe()
    data = b"" if stdin is True else bytes(stdin)
    return its_input, StdinFeed(ours, data, eof=stdin is not True)


def pump_of(
    files: Sequence[int], pipes: tuple[int, int], feed: StdinFeed | None, cap: int
) -> OutputPump:
    """`files`: folder, stdout and stderr. `pipes`: our ends of the program's stdout and stderr."""
    folder, output, error = files
    streams = OutputStream(pipes[0], output, cap), OutputStream(pipes[1], error, cap)
    return OutputPump(folder, *streams, feed)
