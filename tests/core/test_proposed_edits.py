"""Edits in every agent's form, applied as the agents apply them; git checks the line numbers."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tillerman.core.events import Diff
from tillerman.sessions.export.patch import patch
from tillerman.surfaces.rendering.proposed_edits import edits_of

WORDS = (
    "a",
    "b",
    "}",
    "",
    "  return x",
    "-- note",
    "++ x",
    "@@ odd",
    "\u2028 odd \x0c",
    "*** End",
    "é",
)


def files(chance: random.Random) -> tuple[str, str]:
    """Before and after; lines repeat, as in code."""
    before = [
        f"{chance.choice(WORDS)}{chance.choice(('', n))}" for n in range(chance.randint(1, 60))
    ]
    after = list(before)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(after))
        end = min(len(after), at + chance.randint(0, 3))
        after[at:end] = [f"new {chance.random()}" for _ in range(chance.randint(0, 3))]
    return "".join(f"{line}\n" for line in before), "".join(f"{line}\n" for line in after)


def git(folder: Path, *words: str, input: str = "") -> str:
    command = ["git", "-c", "core.autocrlf=false", *words]
    done = subprocess.run(command, cwd=folder, input=input.encode(), capture_output=True)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout.decode() + done.stderr.decode()


def diff(folder: Path, before: str, after: str, context: int) -> list[str]:
    """The hunks of git's diff."""
    (folder / "old").write_text(before, newline="")
    (folder / "new").write_text(after, newline="")
    reported = git(folder, "diff", "--no-index", f"-U{context}", "old", "new").split("\n")
    first = next((at for at, line in enumerate(reported) if line.startswith("@@")), len(reported))
    return reported[first:]


def forms(folder: Path, before: str, after: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The same change as each agent would request it."""
    hunks = diff(folder, before, after, 3)
    lines = ["@@" if line.startswith("@@ -") else line for line in hunks if line]
    patched = "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])
    whole = {"old_string": before, "new_string": after}
    return {
        "Claude Code, Gemini, Qwen": ("Edit", {"file_path": "f", **whole}),
        "OpenCode": ("Edit", {"filePath": "f", "oldString": before, "newString": after}),
        "Copilot": ("Edit", {"path": "f", "old_str": before, "new_str": after}),
        "the mock": ("Edit", {"path": "f", "old": before, "new": after}),
        "several at once": ("MultiEdit", {"file_path": "f", "edits": [whole]}),
        "each with its file": ("MultiEdit", {"edits": [{"file_path": "f", **whole}]}),
        "a whole file": ("Write", {"file_path": "f", "content": after}),
        "a whole file of Copilot": ("Write", {"path": "f", "file_text": after}),
        "Codex's app-server": ("Edit", {"file_path": "f", "patch": "\n".join(hunks)}),
        "Codex's hook": ("Edit", {"patch": patched, "paths": ["f"]}),
        "OpenCode's patch": ("Edit", {"patchText": patched}),
        "apply_patch by its own name": ("Edit", {"input": patched}),
    }


def check(seed: int, folder: Path) -> None:
    before, after = files(random.Random(seed))
    if before == after:
        return
    for form, (tool, input) in forms(folder, before, after).items():
        unplaced = "*** Begin Patch" in str(input)  # lines that repeat may be meant elsewhere
        found = edits_of(tool, input, ("f",))
        assert [edit.path for edit in found] == ["f"], (seed, form)
        made = found[0].applied(before)
        assert unplaced or made == after, (seed, form)
        assert made is not None
        ours = "\n".join(patch(Diff("f", old=before, new=made)))
        (folder / "f").write_text(before, newline="")
        reported = git(folder, "apply", "-v", "-p0", "--unidiff-zero", input=f"{ours}\n")
        assert "offset" not in reported, (seed, form, reported)
        assert (folder / "f").read_bytes().decode() == made, (seed, form)


def test_an_edit_of_any_form_is_shown_with_the_lines_that_git_finds(tmp_path: Path) -> None:
    for seed in range(8):
        check(seed, tmp_path)


@pytest.mark.torture
def test_edits_of_any_form_are_shown_with_the_lines_that_git_finds(tmp_path: Path) -> None:
    for seed in range(8, 400):
        check(seed, tmp_path)


def test_an_edit_that_does_not_fit_the_file_is_reported() -> None:
    for input in (
        {"file_path": "f", "old_string": "x", "new_string": "y"},
        {"file_path": "f", "patch": "@@ -1,1 +1,1 @@\n-x\n+y\n"},
        {"file_path": "f", "insert_line": 9, "insert_text": "y"},
    ):
        (edit,) = edits_of("Edit", input)
        with pytest.raises(ValueError, match=r"not found|does not exist"):
            edit.applied("a\n")


def test_an_edit_without_an_old_text_makes_a_file() -> None:
    (edit,) = edits_of("Edit", {"file_path": "f", "old_string": "", "new_string": "y\n"})
    assert edit.applied(None) == "y\n"
    (edit,) = edits_of("Edit", {"path": "f", "insert_line": 1, "new_str": "b"})
    assert edit.applied("a\nc\n") == "a\nb\nc\n"


def test_a_patch_may_add_move_and_delete_files() -> None:
    message = (
        "*** Begin Patch\n*** Add File: n\n+one\n+two\n*** Update File: o\n*** Move to: p\n@@\n-a\n"
        "+b\n*** Delete File: q\n*** End Patch"
    )
    added, moved, deleted = edits_of("Edit", {"patch": message})
    assert (added.path, added.applied(None)) == ("n", "one\ntwo\n")
    assert (moved.path, moved.moved, moved.applied("a\n")) == ("o", "p", "b\n")
    assert (deleted.path, deleted.applied("x")) == ("q", None)


def test_a_replace_all_edit_replaces_every_occurrence() -> None:
    for key in ("replace_all", "replaceAll"):
        (edit,) = edits_of("Edit", {"path": "f", "old_str": "a", "new_str": "b", key: True})
        assert edit.applied("a a\n") == "b b\n"
    (edit,) = edits_of("Edit", {"path": "f", "old_str": "a", "new_str": "b"})
    assert edit.applied("a a\n") == "b a\n"


def test_a_call_that_does_not_show_its_change_has_no_edits() -> None:
    assert edits_of("Write", {"path": "f"}) == []
    assert edits_of("Bash", {"command": "ls"}) == []
    assert edits_of("MultiEdit", {"file_path": "f", "edits": [{"odd": 1}]}) == []
