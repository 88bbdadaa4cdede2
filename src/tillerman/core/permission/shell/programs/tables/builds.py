"""Program table: compilers and build tools, which run commands of the project."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

# Values of variables and names of targets are expanded.
_MAKE_CALLS = re.compile(r"\$[({]\s*(?!\w+[)}])")
_MAKE_WRITES = re.compile(r"\bfile[\s,]*>{1,2}\s*([^,)}]+)")
_COMPILED = re.compile(
    r"-MF|-dumpdir|-dumpbase|-aux-info|--?Map|-a[acdglmnprs]*|--?M?MD|--?dependency-file"
    r"|--out-implib|--time-trace-file|--reproduce|-ftime-trace|-fprofile-\w+|-fdump-[\w-]+"
    r"|--out-dir|--emit|--target-dir|-Zself-profile"
)
_FROM_INPUT = re.compile(r"(-\w*f|--(make)?file=)?(-|/dev/.*)")


def _make(draft: InvocationDraft) -> None:
    if any(map(_FROM_INPUT.fullmatch, draft.words[1:])):
        draft.doubt("rules of make that are not analyzed")
    for word in draft.parsed.operands:
        draft.code(word)
        for path in _MAKE_WRITES.findall(word):
            draft.access(path if "$" not in path else HOLE, "write")
        if _MAKE_CALLS.search(word):
            draft.doubt("functions of make can run any program")
        if word.startswith(("SHELL=", ".SHELLFLAGS=", "MAKEFLAGS=", "MAKE=")):
            draft.doubt(f"{word.partition('=')[0]} of make can run any program")


def _compiler(draft: InvocationDraft) -> None:
    """Their options are many: each output and plug-in that is known by name counts."""
    words = draft.words[1:]
    for at, word in enumerate(words):
        if word == "-o":
            for path in words[at + 1 : at + 2]:
                draft.access(path, "write")
        elif word.startswith("-o"):
            draft.access(word[2:], "write")
        elif word.startswith(
            ("-wrapper", "-fplugin", "-specs", "--specs", "-load", "-B", "-Xclang")
        ):
            draft.doubt(f"{word} of {draft.program} can run any program")
        elif word.startswith("@"):
            draft.doubt(f"options of {draft.program} in a file that is not analyzed")
    for path in _compiled_to(words):
        draft.access(path, "write")
    makes = any(not word.startswith("-") for word in words)
    if makes and not any(word.startswith(("-o", "-E", "-fsyntax")) for word in words):
        draft.access("a.out", "write")
    draft.mention([word for word in words if not word.startswith("-o")])


def _go_settings(draft: InvocationDraft) -> None:
    if "sets" in draft.parsed.marks:
        draft.at_least("runs")
        draft.access("~/.config/go/env", "write")


def _compiled_to(words: Sequence[str]) -> Iterator[str]:
    """Other files that compilers, assemblers and linkers write."""
    parts = [part for word in words for part in (
        word.split(",")[1:] if word.startswith(("-Wl,", "-Wa,", "-Wp,")) else [word]
    ) if part not in ("-Xlinker", "-Xassembler", "-Xpreprocessor")]  # fmt: skip
    for part, following in zip_longest(parts, parts[1:], fillvalue=""):
        name, equals, value = part.partition("=")
        if equals and _COMPILED.fullmatch(name):
            yield value.rpartition("=")[2]
        elif not equals and _COMPILED.fullmatch(part) and not following.startswith("-"):
            yield following


def _gofmt(draft: InvocationDraft) -> None:
    """Prints what it would change, or with -w changes it; in a folder, all Go files."""
    draft.only += ["*.go"]
    for path in draft.parsed.operands:
        draft.access(path, "read")
        draft.access(path, "read", recursive=True)
        if "rewrites" in draft.parsed.marks:
            draft.access(path, "write", recursive=True)


_CARGO = (
    "-vqhr -V:info --color=text --config=code -Z=text --offline --locked --frozen "
    "--manifest-path=read -C=dir --verbose --quiet -j|--jobs=text --target=text "
    "--target-dir=write/ -p|--package=text -F|--features=text --all-features "
    "--no-default-features --release --profile=text --workspace --all --exclude=text --bin=text "
    "--lib --bins --example=text --tests --test=text --message-format=text"
)
_GO = (
    "-exec=program -toolexec=program -vettool=program -overlay=code -modfile=read -C=dir -o=write "
    "-race -v -x -n -a -json -mod=text -tags=text -run=text -count=text -timeout=text -short "
    "-cover -coverprofile=write -p=text -ldflags=text -gcflags=text -trimpath -bench=text -m -u "
    "-e -f=text -deps -test -find -export -compiled -versions -w -work -cpuprofile=write "
    "-memprofile=write"
)

ROWS = (
    Row("make|gmake", "runs", "",
        "-bmdBeiknpqrRsStvwL -C|--directory=dir --debug?=text -E|--eval=code "
        "-f|--file|--makefile=mention -I|--include-dir=read -j|--jobs?=text "
        "-l|--load-average|--max-load?=text -O|--output-sync?=text "
        "-o|--old-file|--assume-old=text -W|--what-if|--new-file|--assume-new=text --always-make "
        "--environment-overrides --ignore-errors --keep-going --check-symlink-times --just-print "
        "--dry-run --recon --print-data-base --question --no-builtin-rules --no-builtin-variables "
        "--silent --quiet --no-silent --no-keep-going --stop --touch --trace --print-directory "
        "--no-print-directory --warn-undefined-variables", passes=True, refine=_make),
    Row("ninja|cmake|meson|bazel|buck2|gradle|gradlew|mvn|ant|scons|just|task|rake|tox|nox|invoke"
        "|waf",
        "runs", "mention*", "-f=mention -C=dir -B=write --prefix=write", passes=True),
    Row("gcc|g++|cc|c++|clang|clang++|tcc|rustc|ld|as|gfortran|icc|nvcc|zig", "runs", own=True,
        refine=_compiler),
    Row("cargo", "none", "", _CARGO, everywhere=True),
    Row("cargo tree|cargo metadata|cargo pkgid", "runs", "",
        "-i|--invert=text -e|--edges=text -d|--duplicates --depth=text --prefix=text "
        "-f|--format=text --format-version=text --no-deps --filter-platform=text --no-dedupe "
        "--charset=text"),
    Row("cargo build|cargo b|cargo check|cargo c|cargo test|cargo t|cargo run|cargo r|cargo "
        "clippy|cargo bench|cargo doc|cargo fmt|cargo add|cargo remove|cargo update|cargo "
        "install|cargo clean|cargo publish|cargo new|cargo "
        "init|cargo fix|cargo nextest", "runs", "mention*",
        "--all-targets --no-run --fix --allow-dirty --allow-staged --path=read --git=text --dev "
        "--build --open --no-deps --ignored --doc --benches --examples", style="posix"),
    Row("go", "none", "", "", style="posix"),
    Row("go version|go env|go help", "none", "",
        "-json -m -v -w:sets -u:sets -changed", style="single", refine=_go_settings,
        samples=("go version", "go env GOROOT")),
    Row("gofmt", "reads", "",
        "-l -d -s -e -r=text -w:rewrites -cpuprofile=write", style="single", refine=_gofmt,
        samples=("gofmt -l .", "gofmt -d src")),
    Row("go list", "runs", "", _GO, style="single"),
    Row("go build|go run|go test|go vet|go generate|go install|go get|go mod|go fmt|go work|go tool"
        "|go clean|go doc", "runs", "mention*", _GO, style="single"),
    Row("tsc|eslint|prettier|jest|vitest|mocha|webpack|vite|rollup|esbuild|next|nx|turbo|lerna"
        "|gulp|grunt|pytest|ruff|black|mypy|flake8|pylint|isort|pyright|pre-commit|rubocop|rspec"
        "|phpunit|javac|kotlinc|terraform|tofu|ansible|ansible-playbook"
        "|helm|pulumi|vagrant|packer", "runs",
        "mention*", "", passes=True),
)  # fmt: skip
