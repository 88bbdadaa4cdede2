"""A thousand damaged stores: none crashes, and none loses entries without a report."""

from __future__ import annotations

import os
import random

import pytest

from tests.store.store_damage import (
    FILES,
    damaged_copy,
    flip,
    make,
    quick_folder,
    silent_loss_after,
)

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

FLIPS = int(os.environ.get("TILLERMAN_FLIPS", "1000"))
SEED = int(os.environ.get("TILLERMAN_SEED", "1"))


def test_a_flipped_byte_or_bit_at_each_of_many_offsets_is_never_a_silent_loss() -> None:
    dice = random.Random(SEED)
    losses = {}
    with quick_folder() as folder:
        killed, closed = make(folder)
        for _ in range(FLIPS):
            template, name = dice.choice([*((killed, name) for name in FILES), (closed, FILES[0])])
            size = (template / name).stat().st_size
            offset = dice.choice([dice.randrange(size), dice.randrange(200)])
            mask = dice.choice([0xFF, 1 << dice.randrange(8)])
            with damaged_copy(template, folder) as path:
                flip(path.with_name(name), offset, mask)
                if loss := silent_loss_after(path):
                    losses[template.name, name, offset, mask] = loss
    assert losses == {}


@pytest.mark.parametrize("name", FILES)
def test_each_file_cut_at_many_lengths_is_never_a_silent_loss(name: str) -> None:
    dice = random.Random(f"{SEED} {name}")
    losses = {}
    with quick_folder() as folder:
        killed, closed = make(folder)
        for template in (killed, closed) if name == FILES[0] else (killed,):
            size = (template / name).stat().st_size
            for length in dice.choices(range(size), k=FLIPS // 5):
                with damaged_copy(template, folder) as path:
                    os.truncate(path.with_name(name), length)
                    if loss := silent_loss_after(path):
                        losses[template.name, length] = loss
    assert losses == {}


def test_a_page_of_zeros_anywhere_is_never_a_silent_loss() -> None:
    losses = {}
    with quick_folder() as folder:
        _, closed = make(folder)
        for page in range((closed / FILES[0]).stat().st_size // 4096):
            with damaged_copy(closed, folder) as path:
                with path.open("r+b") as file:
                    file.seek(page * 4096)
                    file.write(bytes(4096))
                if loss := silent_loss_after(path):
                    losses[page] = loss
    assert losses == {}
