"""Ways to write a known text as one shell word that expands to that text."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_SPECIAL = frozenset(" \t\n'\"\\$`|&;<>()*?[]#~=%!{}^,")


def single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def double(text: str) -> str:
    return '"' + "".join("\\" + c if c in '"\\$`' else c for c in text) + '"'


def escaped(text: str) -> str:
    if not text:
        return "''"
    return "".join("'\n'" if c == "\n" else "\\" + c if c in _SPECIAL else c for c in text)


class Speller:
    """Writes words. `before` collects statements that must run before a word."""

    def __init__(self, rng: Random, oddness: float) -> None:
        self.rng = rng
        self.before: list[str] = []
        self._oddness = oddness
        self._names = 0

    def word(self, text: str) -> str:
        """The text as a word that expands to one field."""
        if self.rng.random() > self._oddness or not text:
            return escaped(text)
        pieces = self._pieces(text)
        return "".join(self.rng.choice(_STYLES)(self, piece) for piece in pieces)

    def quoted(self, text: str) -> str:
        """A whole script as one argument."""
        styles: list[Callable[[str], str]] = [single, single, double, self.ansi_c, escaped]
        return self.rng.choice(styles)(text)

    def path(self, path: str, *, exists: bool) -> str:
        """A path, perhaps by another route or as a glob."""
        if self.rng.random() > self._oddness:
            return self.word(path)
        routes = [
            *(f"./{path}", f".//{path}", f"src/../{path}", f"./././{path}"),
            *(f"/mnt/ws/{path}", f"/proc/self/cwd/{path}", f"//mnt/ws/{path}", f".git/../{path}"),
        ]
        shells = [
            f"$PWD/{path}",
            f'"$PWD"/{path}',
            f"~+/{path}",
            f"$(pwd)/{path}",
            f"~/../ws/{path}",
        ]
        choice = self.rng.random()
        if choice < 0.3 and not path.startswith("/"):
            return self.word(self.rng.choice(routes))
        if choice < 0.45 and not path.startswith("/") and _is_plain(path):
            return self.rng.choice(shells)
        if exists and choice < 0.9:
            return self.glob(path)
        return self.word(path)

    def glob(self, path: str) -> str:
        at = self.rng.randrange(len(path))
        char = path[at]
        if char == "/" or not char.isalnum():
            return self.word(path)
        kinds = ["?", f"[{char}]", "*", f"[!{_other(char)}]", f"[^{_other(char)}]"]
        kinds += ["[[:alnum:]]", "[!]x]" if char != "x" else "[]x]", "[a-z]", "[!!]", "[[.x.]a-z]"]
        kinds += [f"@({char})", f"+({char}|_)", f"?({char})", "!(_)", f"[\\{char}]", f"['{char}']"]
        sign = self.rng.choice(kinds)
        if "(" in sign:
            self.before.append("shopt -s extglob\n")
        return escaped(path[:at]) + sign + escaped(path[at + 1 :])

    def name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def ansi_c(self, text: str) -> str:
        return "$'" + "".join(self._ansi_c_char(c) for c in text) + "'"

    def _ansi_c_char(self, char: str) -> str:
        code = ord(char)
        if char in "'\\":
            return "\\" + char
        ways = [char] * 6
        if code < 128:
            ways += [f"\\x{code:02x}", f"\\{code:03o}", f"\\u{code:04x}", f"\\x{{{code:x}}}"]
            ways += [f"\\U{code:08x}", f"\\x{code:02X}"]
        return self.rng.choice(ways)

    def _pieces(self, text: str) -> list[str]:
        cuts = sorted(self.rng.sample(range(len(text) + 1), min(2, len(text))))
        pieces = [text[: cuts[0]], text[cuts[0] : cuts[-1]], text[cuts[-1] :]]
        return [piece for piece in pieces if piece] or [text]


Style = Callable[[Speller, str], str]


def _assigned(speller: Speller, text: str, before: str, use: str) -> str:
    name = speller.name()
    value = speller.rng.choice((single, double, escaped))(text)
    speller.before.append(before.format(n=name, v=value))
    return use.format(n=name, v=value)


def _variable(before: str, use: str) -> Style:
    return lambda speller, text: _assigned(speller, text, before, use)


def _inline(form: str) -> Style:
    return lambda speller, text: form.format(q=single(text), e=escaped(text), t=_bare(text))


def _bare(text: str) -> str:
    return text if _is_plain(text) else "x"


def _is_plain(text: str) -> bool:
    return not _SPECIAL.intersection(text)


def _other(char: str) -> str:
    return "q" if char != "q" else "z"


def _octal(speller: Speller, text: str) -> str:
    return "$(printf " + single("".join(f"\\{ord(c) & 0o777:03o}" for c in text)) + ")"


def _continued(speller: Speller, text: str) -> str:
    at = speller.rng.randrange(len(text)) if text else 0
    return escaped(text[:at]) + "\\\n" + escaped(text[at:])


def _nested(speller: Speller, text: str) -> str:
    return "${u:-" + speller.rng.choice(_STYLES[:12])(speller, text) + "}"


_STYLES: list[Style] = [
    *[lambda _, text: escaped(text)] * 3,
    *[lambda _, text: single(text)] * 2,
    *[lambda _, text: double(text)] * 2,
    *[lambda speller, text: speller.ansi_c(text)] * 2,
    lambda _, text: "".join("\\" + c if c != "\n" else "'\n'" for c in text),
    lambda _, text: "$" + double(text),
    _continued,
    _octal,
    _nested,
    _inline("${{u:-{q}}}"),
    _inline("${{u-{e}}}"),
    _inline('"${{u:-{e}}}"'),
    _inline("${{u:={q}}}"),
    _inline("${{PWD:+{q}}}"),
    _inline("$(echo {q})"),
    _inline('"$(printf %s {q})"'),
    _inline("`echo {q}`"),
    _inline("$(cat <<< {q})"),
    _inline("$(echo {e})"),
    _inline("''{e}\"\""),
    _inline('"$u"{e}'),
    _inline("${{u}}{q}"),
    _inline("$@{q}"),
    _inline("$*{e}"),
    _inline("${{u:+x}}{e}"),
    _variable("{n}={v}", "${{{n}}}"),
    _variable("{n}={v}", '"${n}"'),
    _variable("{n}={v}", "${{{n}}}"),
    _variable("{n}=x{v}", "${{{n}#x}}"),
    _variable("{n}=x_{v}", "${{{n}##x*_}}"),
    _variable("{n}={v}x", "${{{n}%x}}"),
    _variable("{n}={v}__x", "${{{n}%%__*}}"),
    _variable("{n}=@@{v}", "${{{n}/@@}}"),
    _variable("{n}=@{v}@", "${{{n}//@/}}"),
    _variable("{n}=x{v}", "${{{n}:1}}"),
    _variable("{n}={v}", "${{{n}@E}}"),
    _variable("{n}={v}", "${{{n},,}}"),
    _variable("{n}={v}; {n}r={n}", "${{!{n}r}}"),
    _variable("declare -n {n}r={n}; {n}={v}", "${{{n}r}}"),
    _variable("{n}=({v})", "${{{n}[0]}}"),
    _variable("{n}=(x {v} y)", '"${{{n}[1]}}"'),
    _variable("{n}=(x {v})", "${{{n}[@]:1:1}}"),
    _variable("{n}=([3]={v})", "${{{n}[@]}}"),
    _variable("declare -A {n}=([k]={v})", "${{{n}[k]}}"),
    _variable("read {n} <<< {v}", "${{{n}}}"),
    _variable("read -r {n} <<< {v}", '"${n}"'),
    _variable("printf -v {n} %s {v}", "${{{n}}}"),
    _variable("mapfile -t {n} <<< {v}", "${{{n}[0]}}"),
    _variable("export {n}={v}", "${{{n}}}"),
    _variable("declare {n}={v}", "${{{n}}}"),
    _variable("readonly {n}={v}", "${{{n}}}"),
    _variable("set -- {v}", "$1"),
    _variable("set -- {v}", '"$@"'),
    _variable("set -- x {v}", "${{@:2:1}}"),
    _variable("{n}=x; {n}={v}", "${{{n}}}"),
    _variable("{n}=; {n}+={v}", "${{{n}}}"),
    _variable("f{n}() {{ echo {v}; }}", "$(f{n})"),
    _variable(": ${{{n}:={v}}}", "${{{n}}}"),
    _variable("for {n} in {v}; do :; done", "${{{n}}}"),
    _variable("true && {n}={v}", "${{{n}}}"),
    _variable("false || {n}={v}", "${{{n}}}"),
    _variable("{n}={v}; ({n}=other)", "${{{n}}}"),
    _variable("{n}=other; true || {n}=no; {n}={v}", "${{{n}}}"),
    _variable("if {n}={v}; then :; fi", "${{{n}}}"),
    _variable("eval {n}={v}", "${{{n}}}"),
    _variable("{n}=$(echo {v})", "${{{n}}}"),
    _variable("let {n}=1; {n}={v}", "${{{n}}}"),
    _variable("unset {n}; : ${{{n}={v}}}", "${{{n}}}"),
]
