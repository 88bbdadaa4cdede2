"""A page as a browser holds it: HTML parsed into elements, on which frames are applied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser

from tillerman.surfaces.page.patches import Add, Delete, PagePatch, Put

VOID = frozenset({"br", "hr", "input", "img", "meta", "link"})


@dataclass
class Element:
    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    @property
    def text(self) -> str:
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    def html(self) -> str:
        inner = "".join(
            escape(one, quote=True) if isinstance(one, str) else one.html() for one in self.children
        )
        named = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes.items())
        return f"<{self.name}{named}>{inner}</{self.name}>"


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        one = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(one)
        if tag not in VOID:
            self._open.append(one)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].name == tag, f"</{tag}> closes <{self._open[-1].name}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        children = self._open[-1].children
        if children and isinstance(children[-1], str):
            children[-1] += data
        else:
            children.append(data)

    def whole(self) -> Element:
        self.close()
        assert self._open == [self.root], f"<{self._open[-1].name}> is not closed"
        return self.root


def parsed(html: str) -> Element:
    builder = _Builder()
    builder.feed(html)
    return builder.whole()


class Page:
    """Applies frames as the script of the page does."""

    def __init__(self, turns: str = "") -> None:
        self.root = parsed(f'<div id="turns">{turns}</div>')

    def html(self) -> str:
        return self.root.html()

    def apply(self, frame: PagePatch) -> bool:
        applied = [self._apply(op) for op in frame.ops]
        return all(applied)

    def _apply(self, op: Put | Add | Delete) -> bool:
        match op:
            case Put():
                self._put(op)
            case Delete(id=id):
                if found := self._find(id):
                    parent, at = found
                    del parent.children[at]
            case Add(id=id, at=at, text=text):
                found = self._find(id)
                if not found:
                    return False
                block = found[0].children[found[1]]
                assert isinstance(block, Element)
                source = next(
                    one for one in block.walk() if one.attributes.get("class") == "source"
                )
                if len(source.text.encode("utf-16-le")) // 2 != at:
                    return False
                source.children = [source.text + text]
        return True

    def _put(self, op: Put) -> None:
        (fresh,) = parsed(op.html).children
        assert isinstance(fresh, Element)
        assert fresh.attributes["id"] == op.id
        if found := self._find(op.id):
            parent, at = found
            parent.children[at] = fresh
            return
        home = next(one for one in self.root.walk() if one.attributes.get("id") == op.parent)
        if op.after is None:
            home.children.insert(0, fresh)
            return
        ids = [
            one.attributes.get("id") if isinstance(one, Element) else "" for one in home.children
        ]
        assert op.after in ids, f"{op.id} goes after {op.after}, which is not there"
        home.children.insert(ids.index(op.after) + 1, fresh)

    def _find(self, id: str) -> tuple[Element, int] | None:
        for parent in self.root.walk():
            for at, child in enumerate(parent.children):
                if isinstance(child, Element) and child.attributes.get("id") == id:
                    return parent, at
        return None
