"""Random chains of programs that run programs: a denied one never runs, a permitted copy does.

Two programs differ only in their names and in one string. Each chain is run with both: whether a
program ran is shown by a file that only the program itself creates.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.supervision.gated import LOADER, PATH, Gated, deny, may_use
from tillerman.supervision.exec_gate import seccomp

pytestmark = pytest.mark.skipif(
    seccomp.unsupported() is not None, reason=str(seccomp.unsupported())
)

Words = list[str]


def shell(name: str) -> Callable[[Words, random.Random], Words]:
    def wrapped(words: Words, dice: random.Random) -> Words:
        return [name, "-c", spelled(words, dice)]

    return wrapped


def spelled(words: Words, dice: random.Random) -> str:
    """The same command line in another shell spelling."""
    name, *rest = words
    quoted = shlex.join(rest)
    half = dice.randrange(1, len(name)) if len(name) > 1 else 1
    first, second = shlex.quote(name[:half]), shlex.quote(name[half:])
    octal = "".join(f"\\{byte:03o}" for byte in name.encode())
    return dice.choice([
        f"{shlex.quote(name)} {quoted}",
        f"{first}{second} {quoted}",
        f"a={first}; b={second}; $a$b {quoted}",
        f"eval {shlex.quote(shlex.join(words))}",
        f"$(printf '{octal}') {quoted}",
        f"f() {{ {shlex.quote(name)} \"$@\"; }}; f {quoted}",
        f"if true; then {shlex.join(words)}; fi",
        f"{{ ({shlex.join(words)}) & wait; }}",
        f"true && exec {shlex.join(words)}",
        f"cat <<'END' | sh\n{shlex.join(words)}\nEND",
        f"set -- {quoted}; {shlex.quote(name)} \"$@\"",
        f"trap {shlex.quote(shlex.join(words))} EXIT",
    ])  # fmt: skip


def located(words: Words) -> Words:
    """By its path: busybox has built-in programs, with other options."""
    return [shutil.which(words[0]) or words[0], *words[1:]]


def python(call: str) -> Callable[[Words, random.Random], Words]:
    def wrapped(words: Words, dice: random.Random) -> Words:
        code = f"import os, subprocess; words = {words!r}; {call}"
        return [sys.executable, "-c", code]

    return wrapped


def before(*prefix: str) -> Callable[[Words, random.Random], Words]:
    return lambda words, _: [*prefix, *words]


WRAPPERS: dict[str, Callable[[Words, random.Random], Words]] = {
    "sh": shell("sh"),
    "bash": shell("bash"),
    "dash": shell("dash"),
    "busybox sh": lambda words, dice: ["busybox", "sh", "-c", spelled(located(words), dice)],
    "env": before("env", "A=b"),
    "nohup": before("nohup"),
    "setsid": before("setsid", "-w"),
    "nice": before("nice", "-n", "1"),
    "timeout": before("timeout", "20"),
    "stdbuf": before("stdbuf", "-o0"),
    "strace": before("strace", "-f", "-o", "/dev/null"),
    "bwrap": before("bwrap", "--dev-bind", "/", "/"),
    "unshare": before("unshare", "-m"),
    "xargs": lambda words, _: ["sh", "-c", f"echo x | xargs -IUNUSED {shlex.join(words)}"],
    "find": lambda words, _: [
        *("find", ".", "-maxdepth", "0", "-exec"), "sh", "-c", shlex.join(words), ";",
    ],
    "bash exec -a": lambda words, _: [
        "bash", "-c", 'exec -a "$0" "$@"', "busybox" if words[0] == "busybox" else "x", *words,
    ],
    "python execvp": python("os.execvp(words[0], words)"),
    "python subprocess": python("subprocess.run(words)"),
    "python spawn": python("os.waitpid(os.posix_spawnp(words[0], ['x', *words[1:]],"
                           " os.environ), 0) if '/' in words[0] else os.execvp(words[0], words)"),
    "perl": lambda words, _: ["perl", "-e", "system { $ARGV[0] } @ARGV", *words],
    "awk": lambda words, _: ["awk", f"BEGIN {{ system({json.dumps(shlex.join(words))}) }}"],
    "git alias": lambda words, _: ["git", "-c", f"alias.x=!{shlex.join(words)}", "x"],
}  # fmt: skip


def place(kind: str, tool: Path, folder: Path) -> Words:
    """How the program at the end of a chain is called."""
    made = folder / f"made-{tool.name}"
    match kind:
        case "name":
            return [tool.name]
        case "path":
            return [str(tool)]
        case "symbolic link":
            made.symlink_to(tool)
        case "copy":
            shutil.copy(tool, made)
        case "script":
            made.write_text(f"#!{tool} x\n")
            made.chmod(0o755)
        case "script of a script":
            inner = folder / f"inner-{tool.name}"
            inner.write_text(f"#!{tool}\n")
            made.write_text(f"#!{inner}\n")
            inner.chmod(0o755)
            made.chmod(0o755)
        case "env script":
            made.write_text(f"#!/usr/bin/env {tool.name}\n")
            made.chmod(0o755)
        case "loader":
            return [str(LOADER), str(tool)]
        case "root link":
            return [f"/proc/self/root{tool}"]
    return [str(made)]


PLACES = (
    "name", "path", "symbolic link", "copy", "script", "script of a script", "env script",
    "loader", "root link",
)  # fmt: skip


@cache
def usable() -> Sequence[str]:
    needed = {name: name.split()[0] for name in WRAPPERS} | {"bash exec -a": "bash"}
    return [
        name
        for name, program in needed.items()
        if program == "python" or (shutil.which(program) is not None and may_use(program))
    ]


async def check(gated: Gated, tools: Path, folder: Path, seed: int) -> None:
    outcomes = []
    for name in ("forbidden", "permitted"):
        dice = random.Random(seed)
        kind = dice.choice(PLACES)
        home = folder / f"{seed}-{name}"
        home.mkdir()
        words = [*place(kind, tools / name, home), "a", "b c"]
        chain = dice.sample(usable(), dice.randrange(1, 5))  # no process can be traced twice
        for wrapper in chain:
            words = WRAPPERS[wrapper](words, dice)
        mark = home / "ran"
        done = await gated.run(["/bin/sh", "-c", '"$@"', "sh", *words], home, {"RAN": str(mark)})
        outcomes.append((mark.exists(), bool(done.refused)))
        assert outcomes[-1] == (name == "permitted", name == "forbidden"), (
            seed, kind, chain, words, done,
        )  # fmt: skip


async def many(tmp_path: Path, tools: Path, seeds: range) -> None:
    path = f"{tools}:{PATH}"
    async with Gated.open(tmp_path / "records", deny("forbidden *"), path=path) as gated:
        for seed in seeds:
            await check(gated, tools, tmp_path, seed)


async def test_no_chain_of_programs_runs_a_denied_one(tmp_path: Path, tools: Path) -> None:
    await many(tmp_path, tools, range(40))


@pytest.mark.torture
@pytest.mark.timeout(1800)
async def test_no_chain_of_many_runs_a_denied_one(tmp_path: Path, tools: Path) -> None:
    await many(tmp_path, tools, range(1000, 3000))
