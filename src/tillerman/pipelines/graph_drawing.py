"""Draws a pipeline for a terminal: a line for each step, with rails from the steps it needs.

```text
● plan    agent  claude
├─╮
● │ tests  agent  codex
│ ● docs   agent  gemini
├─╯
● review  review  a person
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tillerman.pipelines.graph import Node

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_ASCII = {0: " ", _UP | _DOWN: "|", _LEFT | _RIGHT: "-"}  # all others: "+"
_LINES = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"  # by the directions that meet


def drawing(nodes: Sequence[Node], *, ascii: bool = False) -> list[str]:
    """Lines without an end. `nodes`: each after those that it needs."""
    return [line.rstrip() for line in _Rails(nodes, ascii).lines()]


class _Rails:
    """The columns of one level: each is the rail of a step that others still need."""

    def __init__(self, nodes: Sequence[Node], ascii: bool) -> None:
        self._nodes = nodes
        self._ascii = ascii
        self._columns: list[str] = []  # step ids; "": free
        self._wanted = {node.id: 0 for node in nodes}  # how many steps still need it
        for node in nodes:
            for needed in node.needs:
                self._wanted[needed] += 1

    def lines(self) -> Iterator[str]:
        width = max((len(node.id) for node in self._nodes), default=0)
        for node in self._nodes:
            for needed in node.needs:
                self._wanted[needed] -= 1
            at = self._column(node)
            if node.needs:
                yield self._connection(node, at)
            for column, id in enumerate(self._columns):
                if id in node.needs and not self._wanted[id]:
                    self._columns[column] = ""
            while len(self._columns) <= at:
                self._columns.append("")
            self._columns[at] = node.id
            yield f"{self._row(node.id)}{node.id:<{width}}  {node.kind:<8}  {node.detail}"
            if not self._wanted[node.id]:
                self._columns[at] = ""
            yield from self._inside(node)

    def _inside(self, node: Node) -> Iterator[str]:
        bar = ":" if self._ascii else "┊"
        for line in drawing(node.inside, ascii=self._ascii):
            yield f"{self._row('')}  {bar} {line}"

    def _column(self, node: Node) -> int:
        """The rail that goes on in the node, else the first free column."""
        for column, id in enumerate(self._columns):
            if id in node.needs and not self._wanted[id]:
                return column
        free = [column for column, id in enumerate(self._columns) if not id]
        return free[0] if free else len(self._columns)

    def _connection(self, node: Node, at: int) -> str:
        """The line between the steps that are needed and the one that needs them."""
        rails: Mapping[int, str] = {c: id for c, id in enumerate(self._columns) if id}
        ends = [column for column, id in rails.items() if id in node.needs] + [at]
        first, last = min(ends), max(ends)
        cells = []
        for column in range(max(len(self._columns), at + 1)):
            id = rails.get(column, "")
            stays = bool(id) and (id not in node.needs or self._wanted[id] > 0)
            meets = _UP * bool(id) | _DOWN * (stays or column == at)
            if column in ends:
                meets |= _LEFT * (column > first) | _RIGHT * (column < last)
            elif first < column < last and not id:
                meets = _LEFT | _RIGHT
            cells.append(self._char(meets))
            passes = first <= column < last
            cells.append(self._char(_LEFT | _RIGHT if passes else 0))
        return "".join(cells)

    def _row(self, node: str) -> str:
        cells = []
        for id in self._columns:
            mark = ("o" if self._ascii else "●") if node and id == node else ""
            cells.append(mark or self._char(_UP | _DOWN if id else 0))
        return "".join(f"{cell} " for cell in cells)

    def _char(self, meets: int) -> str:
        return _ASCII.get(meets, "+") if self._ascii else _LINES[meets]
