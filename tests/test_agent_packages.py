"""Modules of an agent's package are found by its entry point, and imported only when needed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.agent_packages import agents_with, entry_points, load_module
from tillerman.core.errors import UsageError
from tillerman.hooks.dialects import load

Offer = Callable[[str, dict[str, str]], None]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    """Installs a package with these files that offers an agent called `acme`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(package: str, files: dict[str, str]) -> None:
        for name, text in files.items():
            file = tmp_path / package / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        info = tmp_path / f"{package}-1.dist-info"
        info.mkdir()
        entry = (
            f"[tillerman.agents]\nacme = {package}.agent:agent\nacme-exec = {package}.agent:two\n"
        )
        (info / "entry_points.txt").write_text(entry)

    return install


def test_a_module_is_loaded_without_the_agents_driver(offer: Offer) -> None:
    offer("acme_light", {"__init__.py": "", "agent.py": "1 / 0", "hook_dialect.py": "dialect = 7"})
    assert entry_points()["acme"] == "acme_light.agent:agent"
    assert "acme" in agents_with("hook_dialect")
    assert load("acme") == 7
    assert "acme_light.agent" not in sys.modules


def test_two_agents_of_one_package_are_listed_once(offer: Offer) -> None:
    offer("acme_twice", {"__init__.py": "", "agent.py": "", "hook_dialect.py": "dialect = 7"})
    listed = agents_with("hook_dialect")
    assert "acme" in listed
    assert "acme-exec" not in listed
    assert load("acme-exec") == 7


def test_a_package_without_the_module_has_none(offer: Offer) -> None:
    offer("acme_bare", {"__init__.py": "", "agent.py": ""})
    assert load_module("acme", "hook_dialect") is None
    assert load_module("nobody", "hook_dialect") is None
    with pytest.raises(UsageError, match="does not support hooks of acme"):
        load("acme")


def test_a_package_that_does_not_exist_breaks_no_other(offer: Offer) -> None:
    offer("acme_gone", {})
    assert "acme" not in agents_with("hook_dialect")
    assert {"claude", "codex", "cursor"} <= set(agents_with("hook_dialect"))
