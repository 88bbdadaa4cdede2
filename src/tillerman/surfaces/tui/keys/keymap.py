"""Validates the configured key map: unknown actions and conflicting keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.binding import Binding
from textual.dom import DOMNode


def problems(keys: Mapping[str, str], places: Mapping[str, tuple[type[DOMNode], ...]]) -> list[str]:
    """Error messages. `places` groups widgets whose bindings are active together."""
    known = {id for nodes in places.values() for node in nodes for id, _ in _bindings(node)}
    reported = [f"unknown key action {name!r}" for name in keys if name not in known]
    for nodes in places.values():
        reported += _clashes(keys, nodes)
    return list(dict.fromkeys(reported))


def described(node: DOMNode, *ids: str) -> str:
    """Describes the current keys of these actions: `⏎ choose · esc close`."""
    app = node.app
    known = {binding.id: binding for _, binding in node._bindings}
    parts = []
    for id in ids:
        key = app._keymap.get(id, known[id].key).partition(",")[0]
        shown = app.get_key_display(known[id].with_key(key))
        parts.append(f"{shown} {known[id].description.lower()}")
    return " · ".join(parts)


def bindings(places: Mapping[str, tuple[type[DOMNode], ...]]) -> list[Binding]:
    """All bindings, each once."""
    found = {
        binding.id: binding
        for nodes in places.values()
        for node in nodes
        for binding in node.BINDINGS
        if isinstance(binding, Binding) and binding.id
    }
    return list(found.values())


def _clashes(keys: Mapping[str, str], nodes: tuple[type[DOMNode], ...]) -> Iterator[str]:
    """Conflicts caused by the config; default bindings may share a key on purpose."""
    users: dict[str, set[str]] = {}
    for node in nodes:
        for id, key in _bindings(node):
            for one in keys.get(id, key).split(","):
                users.setdefault(one.strip(), set()).add(id)
    for key, ids in users.items():
        if len(ids) > 1 and any(id in keys for id in ids):
            yield f"{key} is bound to {' and '.join(sorted(ids))}"


def _bindings(node: type[DOMNode]) -> Iterator[tuple[str, str]]:
    for binding in node.BINDINGS:
        if isinstance(binding, Binding) and binding.id:
            yield binding.id, binding.key
