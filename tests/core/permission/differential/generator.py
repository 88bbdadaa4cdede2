"""Generates shell lines from integers: the same number gives the same line."""

from __future__ import annotations

from random import Random

from tests.core.permission.differential import actions, contexts, directories, features, mutation
from tests.core.permission.differential.spelling import Speller, single

_SPACES = ("  ", "\t", " \\\n", "   ", "\t \t")


def line(seed: int) -> str:
    rng = Random(seed)
    kinds = (structured, directories.walk, mutation.mutated, walked, mutation.soup)
    text = rng.choices(kinds, (52, 14, 20, 9, 5))[0](rng)
    text = text.replace("\0", "")
    if rng.random() < 0.06:
        text = respaced(rng, text)
    return text


def structured(rng: Random) -> str:
    """Some commands, each perhaps in an unusual spelling and inside another construct."""
    return _joined(rng, [statement(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))])


def walked(rng: Random) -> str:
    """A structured line in another directory."""
    return _joined(rng, [directories.change(rng), statement(rng)])


def statement(rng: Random) -> str:
    speller = Speller(rng, rng.choice((0.0, 0.1, 0.3, 0.7)))
    choice = rng.random()
    if choice < 0.2:
        text = contexts.wrapped(rng, actions.simple_words(rng), speller)
    elif choice < 0.25:
        text = _braced(rng)
    elif choice < 0.3:
        text = _split(rng, speller)
    elif choice < 0.34:
        text = _linked(rng)
    elif choice < 0.4:
        text = rng.choice(features.ALONE)
    else:
        text = actions.action(rng, speller)
    text = _sequence([*speller.before, text])
    for _ in range(rng.choice((0, 0, 0, 1, 1, 1, 2, 3))):
        inner = Speller(rng, 0.2)
        text = contexts.around(rng, text, inner)
        if rng.random() < 0.06 and "\n" not in text:
            text = contexts.backticks(text)
        text = _sequence([*inner.before, text])
    return text


def respaced(rng: Random, text: str) -> str:
    """Inserts another blank somewhere, whether or not it changes the meaning."""
    places = [at for at, char in enumerate(text) if char == " "]
    if not places:
        return text
    at = rng.choice(places)
    return text[:at] + rng.choice(_SPACES) + text[at + 1 :]


def _braced(rng: Random) -> str:
    """A command whose words come from brace expansion."""
    words = actions.simple_words(rng)
    joined = ",".join(words)
    forms = [f"{{{joined}}}", f"{words[0]}{{,}} {' '.join(words[1:])}", f"{{{joined},}}"]
    head, tail = words[0][:1], words[0][1:]
    forms += [f"{head}{{{tail},x}} {' '.join(words[1:])}", f"{{{head},{head}}}{tail} x"]
    forms += [f"{words[0]} {{{','.join(words[1:])},x{{1..2}}}}", f"{words[0]}{{${{IFS}},}}x"]
    return rng.choice(forms)


def _split(rng: Random, speller: Speller) -> str:
    """A command whose words come from splitting a value."""
    text = " ".join(actions.simple_words(rng))
    name = speller.name()
    commas = text.replace(" ", ",")
    forms = [
        *(f"{name}={single(text)}; ${name}", f"{name}={single(text)}; ${{{name}}}"),
        *(
            f"$(echo {text})",
            f"`echo {text}`",
            f"set -- {text}; $@",
            f'set -- {text}; "$@"',
            f"set -- {text}; $*",
        ),
        *(
            f"{name}=({text}); ${{{name}[@]}}",
            f'{name}=({text}); "${{{name}[@]}}"',
            f"${{u:-{text}}}",
        ),
        *(
            f"IFS=,; {name}={commas}; ${name}",
            f"IFS=, ; $(echo {commas})",
            text.replace(" ", "${IFS}"),
        ),
        *(text.replace(" ", "$IFS"), text.replace(" ", "$'\\t'"), text.replace(" ", "${IFS:0:1}")),
        *(
            f"{name}={single(text)} eval '${name}'",
            f"${{u+x}}{text}",
            f"read -a {name} <<< {single(text)}; ${{{name}[@]}}",
        ),
        *(
            f'IFS=, read -a {name} <<< {commas}; "${{{name}[@]}}"',
            f"while read -r l; do $l; done <<< {single(text)}",
        ),
        *(
            f"for {name} in {single(text)}; do ${name}; done",
            f"xargs -I% % <<< x; {text}",
            f'f() {{ "$@"; }}; f {text}',
        ),
    ]
    return rng.choice(forms)


def _linked(rng: Random) -> str:
    """A link that the line creates, and an action through it."""
    makes = ("ln -s {t} q", "ln -sf {t} q", "ln -sT {t} q", "cp -a {l} q", "cp -P {l} q", "cp -d {l} q", "ln {f} q",
             "cp -s {a} q", "cp -l {f} q", "cp -al {l} q", "ln -s {t} src/q; mv src/q q", "cp -R {l} q", "mv {l} q",
             "ln -s {t} p; ln -s p q", "ln -s {t} p; mv p q", "cp -rl {f} q", "link {f} q", "busybox ln -s {t} q",
             "t={t}; ln -s $t q", "ln -s \"$(echo {t})\" q", "cd src; ln -s {t} ../q; cd ..", "xargs ln -s {t} <<< q",
             "tar cf src/t {l}; mkdir d; tar xf src/t -C d; mv d/{l} q", "find {l} -exec cp -a {{}} q \\;")  # fmt: skip
    uses = ("> q", "> q/z", "echo x > q/o.txt", "touch q/z", "rm -r q/*", "cat q", "tee q < a.txt", "cp a.txt q", "chmod 600 q",
            "cd q; > z", "cd -P q; > ../z", "sed -i s/a/b/ q", "rm -rf q/", "mkdir q/n", "echo x >> q", "mv a.txt q", "find q/ -delete",
            "cp -r src q/", "> q/hooks/x", "> q/config", "truncate -s0 q", "dd of=q < a.txt", "> ./q/z", "> /mnt/ws/q/z", "> \"$PWD\"/q/z", "> q*")  # fmt: skip
    target = rng.choice(
        (
            "../outside",
            "../outside/o.txt",
            ".env",
            ".git",
            ".git/config",
            "src",
            "out",
            "/mnt/outside",
            ".",
        )
    )
    text = rng.choice(makes).format(
        t=target,
        l=rng.choice(("out", "envlink")),
        f=rng.choice((".env", "a.txt", ".git/config", "../outside/o.txt")),
        a=rng.choice(("/mnt/ws/.env", "../outside/o.txt", "/mnt/outside/o.txt")),
    )
    return text + rng.choice(("; ", " && ", "\n")) + rng.choice(uses)


def _sequence(statements: list[str]) -> str:
    line = ""
    for one in statements:
        line += ("" if not line or line.endswith("\n") else "; ") + one
    return line


def _joined(rng: Random, statements: list[str]) -> str:
    line = statements[0]
    for one in statements[1:]:
        line += ("" if line.endswith("\n") else rng.choice(directories.JOINS)) + one
    return line


def each_construct() -> list[str]:
    """Every template once, around or after something plain, so that no finding is hidden by another
    doubt."""
    rng, plain = Random(0), Speller(Random(0), 0.0)
    lines = [actions.filled(template, rng, plain) for template in actions.TEMPLATES for _ in "12"]
    for payload in ("rm a.txt", "echo x > .env", "touch ../z"):
        lines += [contexts.inside(template, payload, plain) for template in contexts.TEMPLATES]
    for words in (["rm", "a.txt"], ["touch", ".env.local"], ["git", "-C", "src", "push"]):
        lines += [contexts.behind(wrapper, words, rng, plain) for wrapper in contexts.WRAPPERS]
    return [*lines, *features.ALONE, *directories.each(rng)]
