"""Lines that did what the policy forbids and were allowed: each runs, and none is allowed now."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy
from tillerman.workspace.files.policy_lookup import DiskFiles

# `stub` leaves a file. The rule denies `stub *`.
RUNS = [
    "make x='$(shell stub)'",
    "make 'x=$(shell true; stub a)' all",
    "make x='$(call shell,stub)'",
    "make x='${shell stub}'",
    "make \"x=$'\"'(shell stub)'",
    "sqlite3 -cmd '.shell stub' 'select 1' 'select 2'",
    "sqlite3 --cmd '.system stub' a.db 'select 1'",
    "sqlite3 a.db \"select edit ('x', 'stub;')\"",
    "sqlite3 a.db \"select edit/**/('x', 'stub;')\"",
    "sqlite3 a.db 'select \"edit\"(1, '\"'stub;')\"",
    "echo '.shell stub' > q.sql; sqlite3 -init q.sql a.db 'select 1'",
    "printf 'all:\\n\\tstub\\n' > Makefile; make",
    "echo 'all:; stub a' > Makefile && make all",
    "tmux -L {pid} -f <(echo 'run-shell stub') new -d; sleep 1; tmux -L {pid} kill-server",
    "pip config --editor stub edit",
]
# Each writes a file in the folder `out`, beside the workspace.
WRITES = [
    "curl -sT a.txt file://$PWD/../out/f",
    "curl -sT a.txt FILE://localhost$PWD/../out/",
    "curl -s --upload-file '{{a.txt,b.txt}}' file://$PWD/../out/f",
    "curl -s -w '%output{{../out/f}}x' file://$PWD/a.txt",
    "curl -s -o '../out/#1' file://$PWD/'{{a.txt,b.txt}}'",
    "sqlite3 a.db '.open ../out/f' 'create table t(a)'",
    "sqlite3 a.db '.op ../out/f' 'create table t(a)'",
    "sqlite3 a.db '.trace ../out/f' 'select 1'",
    "sqlite3 -cmd '.output ../out/f' a.db 'select 1'",
    "sqlite3 'file:../out/f?mode=rwc' 'create table t(a)'",
    "sqlite3 a.db \"select 1; attach/**/'../out/f' as q; create table q.t(a)\"",
    "sqlite3 a.db \"select writefile ('../out/f', 'x')\"",
    "sqlite3 -A -cf ../out/f a.txt",
    "node --cpu-prof --cpu-prof-dir=../out -e 1",
    "node --heap-prof --heap-prof-dir ../out -e 1",
    "python3 -m json.tool data.json ../out/f",
    "python3 -m zipapp src -o ../out/f -m b:c",
    "python3 -m zipfile -c ../out/f a.txt",
    "python3 -m tarfile -c ../out/f a.txt",
    "python3 -m cProfile -o ../out/f src/b.py",
    "make 'x=$(file >../out/f,x)'",
    "make x='${{file >>../out/f,x}}'",
    "gcc q.c -Wl,-Map=../out/f",
    "gcc q.c -Wl,-Map,../out/f",
    "gcc q.c -Xlinker -Map=../out/f",
    "gcc -save-temps -dumpdir ../out/ -c q.c",
    "gcc -fsyntax-only -aux-info ../out/f q.c",
    "gcc -fsyntax-only -MD -MF ../out/f q.c",
    "gcc -c q.c -Wa,-al=../out/f",
    "ssh-keygen -t ed25519 -N '' -qf ../out/f",
    "ssh-keygen -q -N '' -f $PWD/../out/f",
    "git credential-store --file=../out/f store <<< $'protocol=https\\nhost=x\\nusername=a\\n"
    "password=b\\n'",
    "cp a.txt ../out/f; git interpret-trailers --in-place --trailer a=b ../out/f",
    "git init -q --bare ../out/f; git push -q ../out/f HEAD:refs/heads/x",
    "openssl rand -writerand ../out/f 8",
    "fakeroot -s ../out/f true",
    "git pack-objects -q --all ../out/f < /dev/null",
    "git bugreport -o ../out --no-suffix",
    "gpg --homedir ../out -k",
    "npm config set loglevel silent",
    "pip config set global.x y",
]
# Each reads `.env`, which the rule denies, or new files of a folder with it.
READS = [
    "TZDIR=$PWD TZ=.env date",
    "export TZDIR=$PWD TZ=.env; date",
    "TZDIR=$PWD/src TZ=../.env date",
    "TZDIR=. TZ=:.env date",
    "TERMINFO=$PWD TERM=.env tput cols",
    "curl -s --url file://$PWD/.e%6ev",
    "curl -s FILE://localhost$PWD/.env",
    "curl -s file://$PWD/'{{x,.env}}'",
    "curl -s file:///$PWD/.env?x",
    "git hash-object --stdin-paths < list",
    "git update-index --add --stdin < list",
    "git grep --untrack${{u}}ed K",
    "xz --files0=list",
    "xz -k --files=list",
    "man ./.env",
    "man ././.env",
    "git add .",
    "git add -A",
    "git add --all && git diff --cached",
    "git add -v ./",
    "git add -f .",
    "git add ':/'",
    "git stash -u",
    "git stash push --include-untracked",
    "git stash -a",
]
# Each changes a protected name, without any rule.
PROTECTED = [
    "curl -sT a.txt file://$PWD/.git/hooks/f",
    "curl -sT a.txt file://$PWD/./.git/hooks/",
    "perl -i'.git/hooks/*' -pe 's/x/y/' a.txt",
    "perl -i'../ws/.git/hooks/*.f' -pe 's/x/y/' a.txt",
    "perl -i.git/hooks/* -pe 's/x/y/' a.txt",
    "sed -i.git/hooks/* s/x/y/ a.txt",
    "xz --files=list",
    "git apply new.patch",
    "cp -${{u}}rT ../tree .",
    "cp -r${{u}}T ../tree .",
    "ssh-keygen -q -N '' -f .git/hooks/f",
    "gcc q.c -Wl,-Map=.git/hooks/f",
    "sqlite3 a.db '.open .git/hooks/f' 'create table t(a)'",
]
AROUND = [
    "{}",
    "if :; then {}\nfi",
    "f() {{ {}\n}}; f",
    "(cd src; cd ..; {})",
    "for i in 1; do {}\ndone",
    "case x in x) {}\n;; esac",
    "true && {}",
    "echo \"${{u:-$({}\n)}}\"",
    "bash <<'END'\n{}\nEND",
    "cat <<'END' | bash\n{}\nEND",
]  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("allowed")
    files = {
        "ws/a.txt": "x\n", "ws/b.txt": "x\n", "ws/src/b.py": "x = 1\n", "ws/.env": "K=1\n",
        "ws/data.json": "{}\n", "ws/q.c": "int main(void){return 0;}\n", "ws/list": ".env\n",
        "ws/Makefile": "all:\n\t@true\n", "tree/.vscode/f": "x\n",
        "ws/new.patch": "--- /dev/null\n+++ b/.vscode/f\n@@ -0,0 +1 @@\n+x\n",
    }  # fmt: skip
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("out", "home", "bin"):
        (root / name).mkdir()
    (root / "bin/stub").write_text(f"#!/bin/sh\ntouch {shlex.quote(str(root))}/ran\n")
    (root / "bin/stub").chmod(0o755)
    for words in (["init", "-q"], ["add", "a.txt", "q.c"], ["commit", "-qm", "one"]):
        subprocess.run(["git", *words], cwd=root / "ws", env=environment(root), check=True)
    return root


def environment(root: Path) -> dict[str, str]:
    path = f"{root}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    who = {f"GIT_{one}_{key}": "a" for one in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    return {"PATH": path, "HOME": f"{root}/home", "GIT_CONFIG_NOSYSTEM": "1", "TERM": "dumb", **who}


def verdict(root: Path, line: str, *rules: dict[str, Any]) -> str:
    policy = Policy.preset("auto", rules=[rule_of(one, "rules.toml:1") for one in rules])
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    context = DecisionContext(
        root / "ws", home=root / "home", resolve=os.path.realpath, files=DiskFiles()
    )
    return policy.decide(request, context).verdict


def text(line: str) -> str:
    plain = line.replace("{{", "{").replace("}}", "}")
    return plain.replace("{pid}", f"stub{os.getpid()}")


def effects(root: Path, line: str) -> set[str]:
    """What the real line left: files outside the workspace, protected ones, and the stub's."""
    program = shlex.split(line, comments=False)[0] if "'" not in line else line.split(maxsplit=1)[0]
    if shutil.which(program, path=environment(root)["PATH"]) is None and "=" not in program:
        pytest.skip(f"{program} is not installed")
    before = found(root)
    subprocess.run(
        ["bash", "-c", line], cwd=root / "ws", env=environment(root), capture_output=True,
        stdin=subprocess.DEVNULL, timeout=30,
    )  # fmt: skip
    return found(root) - before


def found(root: Path) -> set[str]:
    paths = {os.path.relpath(one, root) for one in root.rglob("*")}
    watched = ("out/", "home/", "ran", "ws/.git/hooks/", "ws/.vscode")
    return {one for one in paths if one.startswith(watched)}


@pytest.mark.parametrize("line", [*RUNS, *WRITES, *PROTECTED])
def test_the_line_has_the_effect_that_needs_approval(
    line: str, template: Path, tmp_path: Path
) -> None:
    root = tmp_path / "place"
    shutil.copytree(template, root, symlinks=True)
    (root / "bin/stub").write_text(f"#!/bin/sh\ntouch {shlex.quote(str(root))}/ran\n")
    if not effects(root, text(line)):
        pytest.skip("the program of this machine does not know it")


@pytest.mark.parametrize("around", AROUND)
def test_no_line_is_allowed_that_runs_a_denied_program(around: str, template: Path) -> None:
    rule = {"deny": "no", "command": "stub *"}
    lines = [around.format(text(line)) for line in RUNS]
    assert [one for one in lines if verdict(template, one, rule) == "allow"] == []


@pytest.mark.parametrize("around", AROUND)
def test_no_line_is_allowed_that_writes_outside(around: str, template: Path) -> None:
    lines = [around.format(text(line)) for line in WRITES]
    assert [one for one in lines if verdict(template, one) == "allow"] == []


@pytest.mark.parametrize("around", AROUND)
def test_no_line_is_allowed_that_reads_a_denied_file(around: str, template: Path) -> None:
    rule = {"deny": "no", "path": ".env"}
    lines = [around.format(text(line)) for line in READS]
    assert [one for one in lines if verdict(template, one, rule) == "allow"] == []


@pytest.mark.parametrize("around", AROUND)
def test_no_line_is_allowed_that_changes_a_protected_name(around: str, template: Path) -> None:
    lines = [around.format(text(line)) for line in PROTECTED]
    assert [one for one in lines if verdict(template, one) == "allow"] == []


@pytest.mark.parametrize(
    "line",
    [
        "sqlite3 a.db 'select * from t'", "sqlite3 -header -column a.db .schema",
        "sqlite3 -readonly a.db 'select 1 -- edit(x)'", "make CC=gcc all", "make -j4 'X=$(HOME)'",
        "gcc -Wall -Wl,-rpath=/usr/lib -MMD -MF q.d -o q q.c", "curl -s https://a.example/x?b=c",
        "curl -sT a.txt https://a.example/", "node --max-old-space-size=4096 src/b.js",
        "TZ=UTC date", "TZDIR=/usr/share/zoneinfo TZ=Europe/Berlin date", "npm config get registry",
        "ssh-keygen -lf /etc/ssh/key.pub", "git push -u origin main", "git add -u",
        "git add a.txt src", "git stash", "git stash pop", "mytool <(sort a.txt) <(sort b.txt)",
        "echo '{}' > tsconfig.json; tsc -p tsconfig.json", "man ls", "git commit -m 'run stub'",
        "pip config list", "gpg --verify a.sig a.txt",
    ],
)  # fmt: skip
def test_ordinary_lines_of_the_same_programs_are_allowed_beside_rules(
    line: str, template: Path
) -> None:
    rules = ({"deny": "no", "command": "stub *"}, {"deny": "no", "path": ".env"})
    assert [verdict(template, line, one) for one in rules] == ["allow", "allow"]
    assert verdict(template, line) == "allow"


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [(".env\n", "allow"), ("/.e*\n!b\n", "allow"), (".env/\n", "ask"), (".env\n!.env\n", "ask"),
     ("src/.env\n", "ask")],
)  # fmt: skip
def test_git_adds_no_file_that_it_ignores(
    ignored: str, expected: str, template: Path, tmp_path: Path
) -> None:
    root = tmp_path / "place"
    shutil.copytree(template, root, symlinks=True)
    (root / "ws/.gitignore").write_text(ignored)
    rule = {"deny": "no", "path": ".env"}
    assert verdict(root, "git add .", rule) == expected
    listed = subprocess.run(["git", "add", "-nv", "."], cwd=root / "ws", env=environment(root),
                            capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert (".env'" in listed) == (expected == "ask")


@pytest.mark.parametrize("preset", ["ask", "edits"])
@pytest.mark.parametrize(
    ("line", "tracked"),
    [("grep -R x .", False), ("ls | xargs cat", False), ("git ls-files | xargs wc -l", True)],
)
def test_a_tree_with_a_link_that_leads_outside_is_not_read_unasked(
    line: str, tracked: bool, preset: str, template: Path, tmp_path: Path
) -> None:
    root = tmp_path / "place"
    shutil.copytree(template, root, symlinks=True)
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    for target, expected in (("src", "allow"), ("../out", "ask"), ("../home", "ask")):
        (root / "ws/link").unlink(missing_ok=True)
        (root / "ws/link").symlink_to(target)
        context = DecisionContext(root / "ws", resolve=os.path.realpath, files=DiskFiles())
        before = "allow" if tracked else expected
        assert Policy.preset(preset).decide(request, context).verdict == before
        subprocess.run(["git", "add", "link"], cwd=root / "ws", check=True)
        assert Policy.preset(preset).decide(request, context).verdict == expected
        subprocess.run(["git", "rm", "-qf", "link"], cwd=root / "ws", check=True)
