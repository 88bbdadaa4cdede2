"""The ways to run a program, with the real kernel: a denied one does not run by any of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.supervision.gated import LOADER, PATH, Gated, deny, may_use
from tillerman.supervision.exec_gate import seccomp

pytestmark = [
    pytest.mark.skipif(seccomp.unsupported() is not None, reason=str(seccomp.unsupported())),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gated(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> AsyncIterator[Gated]:
    """One for all ways: starting it takes longer than running a program."""
    records = tmp_path_factory.mktemp("records")
    async with Gated.open(records, deny("forbidden *"), path=f"{tools}:{PATH}") as opened:
        yield opened


WAYS = {
    "by name": "forbidden a",
    "by path": "$TOOLS/forbidden a",
    "nested shells": """sh -c 'bash -c "dash -c \\"forbidden a\\""'""",
    "a name put together": "a=forb b=idden; eval '$a$b' a",
    "a name from a command": "$(printf 'for%sden' bid) a",
    "env": "env A=1 forbidden a",
    "nohup, setsid, nice, timeout": "nohup setsid -w nice timeout 9 forbidden a",
    "xargs": "echo a | xargs forbidden",
    "find": "find . -maxdepth 0 -exec forbidden {} +",
    "another argv[0]": "bash -c 'exec -a innocent forbidden a'",
    "an empty argv[0]": "bash -c 'exec -a \"\" forbidden a'",
    "a login shell's argv[0]": "bash -c 'exec -l forbidden a'",
    "a symbolic link": "ln -s $TOOLS/forbidden link; ./link a",
    "a link to a link": "ln -s $TOOLS/forbidden one; ln -s one two; ./two a",
    "a copy": "cp $TOOLS/forbidden copy; ./copy a",
    "a hard link": "ln $TOOLS/forbidden $TOOLS/hard; $TOOLS/hard a; rm $TOOLS/hard",
    "an interpreter": "printf '#!%s/forbidden a b\\n' $TOOLS > s; chmod +x s; ./s",
    "an interpreter's interpreter": "printf '#!%s/forbidden\\n' $TOOLS > one; chmod +x one;"
    " printf '#!./one -x\\n' > two; chmod +x two; ./two",
    "env as an interpreter": "printf '#!/usr/bin/env forbidden\\n' > s; chmod +x s; ./s",
    "the loader": f"{LOADER} $TOOLS/forbidden a",
    "the loader with options": f"{LOADER} --argv0 x --library-path /tmp $TOOLS/forbidden a",
    "a copied loader": f"cp {LOADER} ./innocent; ./innocent $TOOLS/forbidden a",
    "a relative path": "cd $TOOLS/..; ./$(basename $TOOLS)/forbidden a",
    "through /proc/self/root": "/proc/self/root$TOOLS/forbidden a",
    "through /proc/self/cwd": "cd $TOOLS; /proc/self/cwd/forbidden a",
    "through /dev/fd": "exec 7<$TOOLS/forbidden; /dev/fd/7 a",
    "make": "printf 'all:\\n\\tforbidden a\\n' > Makefile; make -s",
    "awk": "awk 'BEGIN { system(\"forbidden a\") }'",
    "perl": "perl -e 'exec \"forbidden\", \"a\"'",
    "perl with another argv[0]": "perl -e 'exec { \"forbidden\" } \"x\", \"a\"'",
    "node": "node -e 'require(\"child_process\").spawnSync(\"forbidden\", [\"a\"])'",
    "busybox": "busybox sh -c 'forbidden a'",
    "tmux's kind of daemon": "setsid -f sh -c 'forbidden a'; sleep 0.2",
    "a function of the shell": "f() { forbidden \"$@\"; }; f a",
    "command": "command forbidden a",
    "a background job": "forbidden a & wait",
    "a pipeline": "echo a | forbidden a",
    "trap": "trap 'forbidden a' EXIT",
    "strace": "strace -f -o /dev/null forbidden a",
    "sudo": "sudo -n --preserve-env=RAN $TOOLS/forbidden a",
    "unshare": "unshare -m sh -c 'mount --bind $TOOLS/forbidden $TOOLS/permitted && permitted a'",
    "bubblewrap": "bwrap --dev-bind / / sh -c 'forbidden a'",
    "bubblewrap in a user namespace": "bwrap --unshare-all --dev-bind / / forbidden a",
    "bubblewrap under another path": "bwrap --dev-bind / / --bind $TOOLS/forbidden $PWD/innocent"
    " ./innocent a",
}  # fmt: skip
PYTHON = {
    "execv": "os.execv(tool, ['x', 'a'])",
    "execvp": "os.execvp('forbidden', ['x', 'a'])",
    "posix_spawn": "os.waitpid(os.posix_spawn(tool, ['x', 'a'], os.environ), 0)",
    "subprocess": "subprocess.run(['forbidden', 'a'])",
    "a descriptor": "os.execve(os.open(tool, os.O_RDONLY), ['x', 'a'], os.environ)",
    "a thread": "t = threading.Thread(target=subprocess.run, args=(['forbidden', 'a'],));"
    " t.start(); t.join()",
    "a memory file": "m = os.memfd_create('x'); os.write(m, open(tool, 'rb').read());"
    " os.execve(m, ['innocent', 'a'], os.environ)",
    "a memory file by its path": "m = os.memfd_create('x', 0);"
    " os.write(m, open(tool, 'rb').read());"
    " os.execv(f'/proc/self/fd/{m}', ['innocent', 'a'])",
    "a deleted file": "shutil.copy(tool, 'gone'); m = os.open('gone', os.O_RDONLY);"
    " os.unlink('gone'); os.execve(m, ['innocent', 'a'], os.environ)",
}


def needs(text: str) -> None:
    for name in ("node", "busybox", "strace", "sudo", "bwrap", "perl", "tmux", "make"):
        if text.startswith(f"{name} ") and not shutil.which(name):
            pytest.skip(f"no {name}")
    if not may_use(text.partition(" ")[0]):
        pytest.skip("for root")


@pytest.mark.parametrize("way", WAYS)
async def test_a_denied_program_does_not_run_by_any_way_a_shell_has(
    way: str, gated: Gated, tools: Path, tmp_path: Path
) -> None:
    text = WAYS[way]
    needs(text)
    mark = tmp_path / "ran"
    done = await gated.run(text.replace("$TOOLS", str(tools)), tmp_path, {"RAN": str(mark)})
    assert (mark.exists(), bool(done.refused)) == (False, True), done


@pytest.mark.parametrize("way", PYTHON)
async def test_a_denied_program_does_not_run_by_any_way_python_has(
    way: str, gated: Gated, tools: Path, tmp_path: Path
) -> None:
    imports = "import os, shutil, subprocess, threading"
    code = f"{imports}; tool = '{tools}/forbidden'; {PYTHON[way]}"
    mark = tmp_path / "ran"
    done = await gated.run(
        ["/bin/sh", "-c", 'exec "$0" -c "$1"', sys.executable, code], tmp_path, {"RAN": str(mark)}
    )
    assert (mark.exists(), bool(done.refused)) == (False, True), done


@pytest.mark.parametrize("way", WAYS)
async def test_the_same_ways_run_a_program_that_is_not_denied(
    way: str, gated: Gated, tools: Path, tmp_path: Path
) -> None:
    """Otherwise the test above could pass for another reason."""
    text = WAYS[way]
    needs(text)
    mark = tmp_path / "ran"
    if way == "unshare":
        text = "unshare -m sh -c 'permitted a'"
    text = text.replace("forbidden", "permitted").replace("forb ", "perm ")
    text = text.replace("b=idden", "b=itted").replace("'for%sden' bid", "'per%sted' mit")
    done = await gated.run(text.replace("$TOOLS", str(tools)), tmp_path, {"RAN": str(mark)})
    assert (mark.exists(), done.refused) == (True, []), done
