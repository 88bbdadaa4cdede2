"""A pipeline as a Mermaid flowchart, for Markdown pages and pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tillerman.pipelines.graph import Node

_SHAPES = {"review": ("{{", "}}"), "pipeline": ("[[", "]]")}  # others: a box
_ESCAPED = str.maketrans(
    {char: f"#{ord(char)};" for char in '"#&<>`[]{}()|\\;'} | {"\n": " ", "\r": " "}
)


def mermaid(nodes: Sequence[Node]) -> str:
    return "\n".join(["flowchart TD", *_level(nodes, "  ")]) + "\n"


def _level(nodes: Sequence[Node], indent: str) -> Iterator[str]:
    for node in nodes:
        label = "<br/>".join(filter(None, (_text(node.id), _text(f"{node.kind} {node.detail}"))))
        if node.inside:
            yield f'{indent}subgraph {_name(node.id)}["{label}"]'
            yield from _level(node.inside, indent + "  ")
            yield f"{indent}end"
        else:
            opening, closing = _SHAPES.get(node.kind, ("[", "]"))
            yield f'{indent}{_name(node.id)}{opening}"{label}"{closing}'
    for node in nodes:
        for needed in node.needs:
            yield f"{indent}{_name(needed)} --> {_name(node.id)}"


def _name(id: str) -> str:
    """Prefixed, since some words are Mermaid's own, as `end` is; `--` is an edge there."""
    return f"step_{id.replace('-', '_')}"


def _text(text: str) -> str:
    return text.strip().translate(_ESCAPED)
