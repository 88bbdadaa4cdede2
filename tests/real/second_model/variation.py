"""What services may vary, drawn from a seed: ids, chunk sizes, splits between writes."""

from __future__ import annotations

import random
import string

from tests.real.second_model.script import Delivery

ALPHABET = string.ascii_letters + string.digits


class Variation:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def identifier(self, prefix: str, length: int = 24) -> str:
        return prefix + "".join(self._random.choices(ALPHABET, k=length))

    def sometimes(self) -> bool:
        return self._random.random() < 0.5

    def pieces(self, text: str, delivery: Delivery) -> list[str]:
        """The text as deltas. Splits are between code points, also inside a grapheme."""
        if delivery.pieces == "whole":
            return [text]
        most = 3 if delivery.pieces == "small" else 40
        found = []
        while text:
            length = self._random.randint(1, most)
            found.append(text[:length])
            text = text[length:]
        return found

    def writes(self, frames: list[bytes], delivery: Delivery) -> list[bytes]:
        """The frames as writes to the socket: joined, one by one, or split anywhere."""
        if delivery.bytewise:
            whole = b"".join(frames)
            cut = []
            while whole:
                length = self._random.randint(1, 64)
                cut.append(whole[:length])
                whole = whole[length:]
            return cut
        joined: list[bytes] = []
        for frame in frames:
            if joined and not delivery.pause and self._random.random() < 0.3:
                joined[-1] += frame
            else:
                joined.append(frame)
        return joined

    def middle(self, length: int) -> int:
        return self._random.randrange(1, length)
