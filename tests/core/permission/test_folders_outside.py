"""A command that may change any file of the folder it runs in is asked about outside."""

from __future__ import annotations

import os
import shlex
import subprocess
from itertools import product
from pathlib import Path, PurePath

import pytest

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.workspace.files.policy_lookup import DiskFiles

# How a program is told to work in a folder; `{}` is the folder.
OPTIONS = (
    "git -C {} commit -m x",
    "git -C {} add -A",
    "git --work-tree={} --git-dir {}/.git commit -m x",
    "make -C {}",
    "make -C{} test",
    "make --directory={}",
    "gmake --directory {} all",
    "npm --prefix {} ci",
    "npm ci --prefix={}",
    "npm -C {} test",
    "pnpm -C {} install",
    "pnpm --dir {} install",
    "yarn --cwd {} build",
    "bun --cwd={} install",
    "cargo build --manifest-path {}/Cargo.toml",
    "cargo -C {} test",
    "cargo install --path {}",
    "go build -C {}",
    "go test -C {} ./...",
    "pytest --rootdir {}",
    "pytest --rootdir={} tests",
    "pytest -c {}/pytest.ini",
    "python -m pytest --rootdir={}",
    "ninja -C {}",
    "meson compile -C {}",
    "cmake --build {}",
    "cmake -S src -B {}",
    "mvn -f {}/pom.xml package",
    "gradle -p {} build",
    "./gradlew --project-dir {} build",
    "tox -c {}/tox.ini",
    "uv --directory {} sync",
    "uv run --project {} pytest",
    "poetry -C {} install",
    "poetry --directory={} install",
    "composer --working-dir={} install",
    "composer -d {} install",
    "bundle install --gemfile={}/Gemfile",
    "just --working-directory {} --justfile {}/justfile build",
    "task -d {} build",
    "tsc -p {}/tsconfig.json",
    "tsc --project {}",
    "terraform -chdir={} apply",
    "docker compose -f {}/compose.yml up",
    "docker compose --project-directory {} up",
    "dotnet run --project {}",
    "swift build --package-path {}",
    "hg -R {} commit",
    "jj -R {} new",
    "env -C {} make",
    "env --chdir={} npm ci",
    "nice env -C {} make",
    "sudo -D {} make",
    "sudo --chdir={} make install",
    "sudo env -C {} make",
    "systemd-run --user --working-directory={} make",
    "unshare --wd={} make",
    "nsenter --wd={} -t 1 make",
    "GIT_DIR={}/.git git commit -m x",
    "GIT_WORK_TREE={} git checkout .",
    "npm_config_prefix={} npm ci",
    "MAKEFLAGS='-C {}' make",
    "PYTEST_ADDOPTS=--rootdir={} pytest",
    "export UV_WORKING_DIRECTORY={}; uv sync",
    "git -c core.worktree={} checkout .",
    "make install DESTDIR={}",
    "DESTDIR={} make install",
    "pip install -e {}",
    "black {}/src",
    "pytest {}/tests -q",
    "python3 -m pytest {}/tests",
    "uv run pytest {}/tests",
    "npx prettier {}/src",
    "trap make EXIT; cd {}",
    "echo 'cd {} && make' | sh",
    "tmux new -d -c {} make",
    "find {} -name Makefile -execdir make ;",
)  # fmt: skip
# How a line gets to a folder; `{}` is the folder, `COMMAND` what runs there.
WAYS = (
    "cd {} && COMMAND",
    "cd {}; COMMAND",
    "cd -P -- {} && COMMAND",
    "cd {}/. && COMMAND",
    "pushd {} && COMMAND",
    "(cd {} && COMMAND)",
    "{ cd {}; COMMAND; }",
    "sh -c 'cd {} && COMMAND'",
    "bash -lc 'cd {}; COMMAND'",
    "eval 'cd {}'; COMMAND",
    "sudo sh -c 'cd {} && COMMAND'",
    "D={}; cd $D && COMMAND",
    "D={}; cd \"$D\"; COMMAND",
    "f() { cd {}; }; f; COMMAND",
    "f() { cd $1 && COMMAND; }; f {}",
    "for d in {}; do (cd $d && COMMAND); done",
    "for d in src {}; do cd $d; COMMAND; done",
    "cd src; cd $OLDPWD; cd {} && COMMAND",
    "cd {} && cd - && cd - && COMMAND",
    "if cd {}; then COMMAND; fi",
    "cd {} || exit 1; COMMAND",
    "CDPATH={}/..; cd outside && COMMAND",
    "ln -s {} made && cd made && COMMAND",
    "echo {} | xargs -I@ sh -c 'cd @ && COMMAND'",
    "cd \"$(echo {})\" && COMMAND",
    "while cd {}; do COMMAND; done",
    "cd {} && COMMAND | tail -3",
    "cd {} && timeout 9 COMMAND > /dev/null 2>&1",
    "cd {} && nohup COMMAND &",
)  # fmt: skip
# Parts of a way that leave it open where the line is.
UNSURE = ("CDPATH", "ln -s", "xargs", "$(", "; do cd", "$OLDPWD", "while")
CHANGES = (
    "make", "npm install", "npm ci", "npm test", "cargo build", "go generate", "pytest",
    "git commit -m x", "git add -A",
    "git add -u", "git fetch", "git pull", "git checkout main", "./build.sh",
    "python3 setup.py build", "node x.js",
    "python3 -c 'print(1)'", "pip install -e .", "docker compose up", "unknown-program", "sh x.sh",
    "source x.sh",
)  # fmt: skip
READS = (
    "ls", "ls -la", "cat README.md", "git status", "git log --oneline -3", "git diff", "rg x",
    "find . -name x", "pwd",
    "head -3 README.md", "wc -l README.md", "npm ls", "echo x", "test -f x", "true",
    "jq . package.json", "node --version",
)  # fmt: skip


class Layout:
    """A workspace beside another folder, with links from the one to the other."""

    def __init__(self, base: Path) -> None:
        self.root = base / "workspace"
        self.outside = base / "outside"
        for folder in ("src", "packages/a", "packages/b"):
            (self.root / folder).mkdir(parents=True)
        (self.outside / "sub").mkdir(parents=True)
        (self.root / "link").symlink_to(self.outside)
        (self.root / "src/chain").symlink_to("../link")
        (self.outside / "back").symlink_to(self.root)
        self.there = (
            "../outside", str(self.outside), "src/../../outside", "./../outside/sub", "link",
            "./link/sub", "src/chain",
            f"{base}/workspace/../outside", "..", "../", "/", "~", "~/other",
        )  # fmt: skip
        self.here = (
            ".", "src", "./src/", "packages/a", "src/..", str(self.root), "../workspace/src",
            "../outside/back/src",
        )  # fmt: skip

    def context(self, **fields: object) -> DecisionContext:
        return DecisionContext(
            self.root,
            home=PurePath("/home/me"),
            resolve=os.path.realpath,
            files=DiskFiles(),
            **fields,  # type: ignore[arg-type]
        )


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("base"))


def bash(line: str) -> PermissionRequested:
    return PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})


def verdict(line: str, context: DecisionContext, preset: str = "auto") -> str:
    return Policy.preset(preset).decide(bash(line), context).verdict


def led(way: str, folder: str, command: str) -> str:
    if "'" in command and "'" in way:
        command = command.replace("'", '"')
    return way.replace("{}", folder).replace("COMMAND", command)


def ends_outside(layout: Layout, folder: str) -> bool:
    """As a real shell resolves the folder."""
    told = subprocess.run(
        ["sh", "-c", f"HOME=/home/me; cd {folder} 2>/dev/null && pwd -P || echo /elsewhere"],
        cwd=layout.root,
        capture_output=True,
        text=True,
        check=True,
    )
    return not f"{told.stdout.strip()}/".startswith(f"{layout.root}/")


def test_the_folders_of_the_layout_are_where_a_shell_finds_them(layout: Layout) -> None:
    assert [ends_outside(layout, one) for one in layout.there] == [True] * len(layout.there)
    assert [ends_outside(layout, one) for one in layout.here] == [False] * len(layout.here)


@pytest.mark.parametrize("preset", ["auto", "edits"])
@pytest.mark.parametrize("option", OPTIONS)
def test_a_program_that_is_told_to_work_outside_is_asked_about(
    layout: Layout, option: str, preset: str
) -> None:
    context = layout.context()
    there = {one: verdict(option.replace("{}", one), context, preset) for one in layout.there}
    assert {one for one, said in there.items() if said == "allow"} == set()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_program_that_is_told_to_work_inside_is_not(layout: Layout, option: str) -> None:
    context = layout.context()
    if "GIT_DIR=" in option or "git-dir" in option:
        pytest.skip(".git is protected wherever it is")
    inside = {one: verdict(option.replace("{}", one), context) for one in layout.here}
    # through a folder outside, the shell's `..` is not that of the path
    outside = {"../outside/back/src"}
    assert {one for one, said in inside.items() if said != "allow"} <= outside


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_runs_outside_is_asked_about(layout: Layout, way: str) -> None:
    context = layout.context()
    lines = [led(way, folder, one) for folder, one in product(layout.there, CHANGES)]
    if "CDPATH" in way or "made" in way:
        lines = [led(way, str(layout.outside), one) for one in CHANGES]
    assert [line for line in lines if verdict(line, context) == "allow"] == []


@pytest.mark.parametrize("way", [way for way in WAYS if "sudo" not in way])
def test_what_only_reads_outside_is_decided_as_before(layout: Layout, way: str) -> None:
    context = layout.context()
    lines = [led(way, "../outside", one) for one in READS]
    if "xargs" in way or "ln -s" in way:  # runs what is only known at run time; writes a link
        return
    assert [line for line in lines if verdict(line, context) != "allow"] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_runs_inside_is_not_asked_about(layout: Layout, way: str) -> None:
    context = layout.context()
    if any(one in way for one in UNSURE):
        return
    lines = [led(way, folder, one) for folder, one in product(("src", "packages/a"), CHANGES)]
    asked = [line for line in lines if verdict(line, context) != "allow"]
    assert asked == []


@pytest.mark.parametrize(
    "line",
    [
        "for d in packages/*; do (cd $d && npm test); done",
        'for d in packages/*/; do (cd "$d" && npm test); done',
        "for d in packages/*; do make -C $d; done",
        "for d in packages/*; do npm --prefix $d ci; done",
        "cd packages/[ab] && make",
        "find . -name package.json -execdir npm ci ;",
        "(cd ../outside && ls); npm test",
        "ls ../outside && make",
        "cat /etc/os-release; make",
        "cd src && cd .. && npm test",
        "source .venv/bin/activate && pytest",
        "ssh host 'cd /srv && make'",
        "docker exec app sh -c 'cd /app && make'",
        "docker run --rm -w /app image make -C /app",
        "docker build -f docker/Dockerfile .",
        "grep -C 3 x README.md",
        "PYTHONPATH=../outside pytest",
        "JAVA_HOME=/usr/lib/jvm/x mvn test",
        "python3 -m pytest -q",
    ],
)
def test_folders_that_are_inside_or_only_read_need_no_answer(layout: Layout, line: str) -> None:
    assert verdict(line, layout.context()) == "allow"


@pytest.mark.parametrize(
    "line",
    ["cd packages/../../out* && make", "cd link* && make", "cd ../* && make", "cd .* && make"],
)
def test_a_glob_that_leads_outside_is_asked_about(layout: Layout, line: str) -> None:
    assert verdict(line, layout.context()) == "ask"


def test_the_folder_of_the_call_and_of_the_agent_count(layout: Layout) -> None:
    outside = str(layout.outside)
    for input in ({"cwd": outside}, {"workdir": "../outside"}, {"dir_path": "link"}):
        asked = bash("make")
        asked.input.update(input)
        assert Policy.preset("auto").decide(asked, layout.context()).rule == "guard.directory"
    drifted = layout.context(base=PurePath(outside))
    assert verdict("make", drifted) == "ask"
    assert verdict("ls", drifted) == "allow"
    assert verdict(f"cd {layout.root} && make", drifted) == "allow"


def test_other_folders_of_the_workspace_are_inside(layout: Layout) -> None:
    context = layout.context(folders=(PurePath(layout.outside),))
    for line in ("cd ../outside && make", "make -C ../outside/sub", "git -C link commit -m x"):
        assert verdict(line, context) == "allow"


def test_the_request_names_the_folder(layout: Layout) -> None:
    decision = Policy.preset("auto").decide(bash("cd ../outside && npm ci"), layout.context())
    assert (decision.rule, decision.note) == (
        "guard.directory",
        "runs in a folder outside the workspace, and does not only read: ../outside",
    )


@pytest.mark.parametrize("line", ["cd ../outside && npm ci", "make -C ../outside", "sudo -D / x"])
def test_an_answer_of_always_holds(layout: Layout, line: str) -> None:
    rule = rule_for(bash(line))
    assert rule is not None
    policy = Policy.preset("auto").remembering([rule])
    assert policy.decide(bash(line), layout.context()).verdict == "allow"
    assert policy.decide(bash(f"{line}x"), layout.context()).verdict != "allow"


def test_a_rule_for_the_command_decides_first(layout: Layout) -> None:
    allowed = Policy.preset("auto", rules=[Rule("ci", "allow", commands=("npm ci",))])
    line = f"cd {shlex.quote(str(layout.outside))} && npm ci"
    assert allowed.decide(bash(line), layout.context()).verdict == "allow"


@pytest.mark.parametrize("preset", ["ask", "edits", "readonly", "none"])
def test_no_stricter_preset_becomes_more_lenient(layout: Layout, preset: str) -> None:
    for option, folder in product(OPTIONS, ("../outside", "link")):
        assert verdict(option.replace("{}", folder), layout.context(), preset) != "allow"
