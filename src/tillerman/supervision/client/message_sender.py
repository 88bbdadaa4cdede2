"""Sends messages with files to the warden, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from typing import Any

from tillerman.supervision.protocol.channel import Channel, frame, rights


class MessageSender:
    """Queue of messages to the warden. It owns their files until they are sent."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()

    def send(self, *message: Any, files: Sequence[int] = ()) -> None:
        self._unsent.append((frame(message), files))
        self._flush()

    def close(self) -> None:
        """Drops what was not sent. Call it before the channel is closed."""
        self._loop.remove_writer(self._channel.fileno())
        self._drop()

    def _flush(self) -> None:
        try:
            while self._unsent:
                data, files = self._unsent[0]
                sent = self._channel.socket.sendmsg([data], rights(files))
                for number in files:
                    os.close(number)
                if sent == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = (data[sent:], ())
        except BlockingIOError:
            self._loop.add_writer(self._channel.fileno(), self._flush)
        except OSError:
            self._drop()  # the warden has ended, which its reader is about to notice
        else:
            self._loop.remove_writer(self._channel.fileno())

    def _drop(self) -> None:
        for _, files in self._unsent:
            for number in files:
                os.close(number)
        self._unsent.clear()
