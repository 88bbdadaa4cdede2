"""Program table: interpreters that run code from a file, an option, or standard input."""

from __future__ import annotations

import re
from collections.abc import Callable

from tillerman.core.permission.shell.parsed_script import is_open
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_MODULES_THAT_RUN_WORDS = frozenset({
    "timeit", "pdb", "code", "runpy", "profile", "cProfile", "trace", "zipfile", "tarfile",
    "json.tool", "idlelib", "idlelib.idle", "asyncio", "sqlite3", "pickle", "doctest", "ensurepip",
})  # fmt: skip
_SCRIPT_OPTIONS = ("-c", "-e", "--command", "--execute")
# Commands of the database clients: what follows may be files.
_CLIENT_COMMAND = re.compile(r"(?im)(?:^\s*\.\w+|\\\w+|^\s*source|^\s*tee)[ \t]+([^\n]*)")
_DATABASE_OUTPUT = re.compile(
    r"(?im)(?:^\s*\.(?:output|once|backup|save|log|excel|dump|clone)|\\[og]|^\s*tee)\s+"
    r"['\"]?([^\s'\"|]+)"
    r"|(?:vacuum\s+(?:\w+\s+)?into|writefile\s*\(|attach(?:\s+database)?|outfile|dumpfile)\s*"
    r"['\"]([^'\"\n]+)"
)
_HARMLESS_SQL = re.compile(
    r"(?is)\s*(select|\.tables|\.schema|explain|pragma \w+)\b"
    r"(?!.*(\.(shell|system|load|import|output|once|excel)|load_extension|edit\(|writefile"
    r"|\\!|\\[og]|\\copy|program|outfile|system))"
)


def _file_or_input(draft: InvocationDraft) -> None:
    """Without a file, standard input is the code; the arguments of a script are only mentions."""
    if draft.doubts or ("info" in draft.parsed.marks and len(draft.words) == 2):
        return
    rest = draft.words[1 + draft.parsed.rest :]
    if not rest or rest[0] == "-" or is_open(rest[0]) or "input" in draft.parsed.marks:
        draft.doubt(f"code for {draft.program}, which is not analyzed")
        draft.code(draft.stdin.text or "")
        draft.mention(rest[1:])
        return
    draft.access(rest[0], "read")
    draft.mention(rest[1:])


def _python(draft: InvocationDraft) -> None:
    module = draft.parsed.value("-m")
    if module is None:
        _file_or_input(draft)
        return
    arguments = _after_module(draft)
    if is_open(module) or module in _MODULES_THAT_RUN_WORDS:
        draft.doubt(f"code for {draft.program}, which is not analyzed")
    if module in ("venv", "virtualenv"):
        for word in arguments:
            if not word.startswith("-"):
                draft.access(word, "write")
    if module in ("pip", "pytest", "build", "venv", "mypy", "ruff", "black"):
        draft.others.append(" ".join([module, *arguments]))
    draft.mention(arguments)


def _after_module(draft: InvocationDraft) -> list[str]:
    for at, word in enumerate(draft.words[1:], 1):
        if word == "-m":
            return list(draft.words[at + 2 :])
        if word.startswith("-") and not word.startswith("--") and "m" in word:
            return list(draft.words[at + (2 if word.endswith("m") else 1) :])
    return []


def _perl(draft: InvocationDraft) -> None:
    """-i changes the named files, whatever the code is."""
    operands = draft.words[1 + draft.parsed.rest :]
    if "inplace" in draft.parsed.marks:
        for path in operands:
            draft.access(path, "write")
    elif draft.doubts:
        draft.mention(operands)
    _file_or_input(draft)


def _database(draft: InvocationDraft) -> None:
    """Their languages have commands that run programs and write files."""
    words = draft.words
    if draft.program == "sqlite3":
        file, *scripts = [word for word in words[1:] if not word.startswith("-")] or [""]
        if file != ":memory:" and "-readonly" not in words:
            draft.access(file, "write")
    else:
        scripts = [words[at + 1] for at in range(len(words) - 1) if words[at] in _SCRIPT_OPTIONS]
    if not scripts or not all(map(_HARMLESS_SQL.match, scripts)):
        draft.doubt(f"a script of {draft.program} that is not analyzed")
    for script in (*scripts, draft.stdin.text or ""):
        draft.code(script)
        for rest in _CLIENT_COMMAND.findall(script):
            draft.mention(rest.replace("'", " ").replace('"', " ").split())
        for path in (first or second for first, second in _DATABASE_OUTPUT.findall(script)):
            draft.access(path, "write")


def _ed(draft: InvocationDraft) -> None:
    draft.doubt("a script of ed that is not analyzed")
    for line in (draft.stdin.text or "").splitlines():
        draft.mention(re.sub("^[^a-zA-Z!]*[a-zA-Z]{1,2}", "", line).split())


def _subcommand(draft: InvocationDraft) -> None:
    if draft.words[1:2] in (["eval"], ["repl"]):
        draft.doubt(f"code for {draft.program}, which is not analyzed")
    draft.mention(draft.words[2:])


def _language(
    names: str, options: str, refine: Callable[[InvocationDraft], None] = _file_or_input
) -> Row:
    return Row(names, options=options, style="posix", refine=refine)


ROWS = (
    _language("python|pypy|ipython",
              "-bBdEhiIOPqsSuvxR? -V:info -c=code -m=text -W=text -X=text "
              "--check-hash-based-pycs=text --help-all:info", refine=_python),
    _language("perl", "-acfFlnpsStTuUwWxX -v:info -i?=text:inplace -e=code -E=code -I=code -M=code "
              "-m=code -0?=text -d?=code -D=text -C?=text -V?=text:info", refine=_perl),
    _language("ruby", "-acdhlnpsSwWy -v:info -i?=text:inplace -e=code -r=code -I=code -C=dir "
              "-E=text "
              "-F=text -0?=text -x?=text -K=text -T?=text --verbose:info --enable=text "
              "--disable=text --yjit --jit", refine=_perl),
    _language("node|nodejs", "-hic -v:info -e|--eval=code -p|--print=code -r|--require=code "
              "--import=code --loader=code --experimental-loader=code --input-type=text "
              "-C|--conditions=text --env-file=code --inspect?=text --inspect-brk?=text "
              "--max-old-space-size=text --test --watch --trace-warnings --no-warnings --check "
              "--interactive --prof --expose-gc --enable-source-maps --experimental-vm-modules "
              "--experimental-strip-types --unhandled-rejections=text --openssl-legacy-provider "
              "--preserve-symlinks --run=text --title=text --stack-trace-limit=text"),
    _language("bun", "-e|--eval=code -p|--print=code -r|--preload=code -v:info",
              refine=_subcommand),
    _language("deno", "-V:info -A", refine=_subcommand),
    _language("php", "-aCnsHwiq -v:info -r=code -B=code -R=code -E=code -d=code -c=code -z=code "
              "-f=read:input -F=code -S=text -t=dir -l -m"),
    _language("lua|luajit", "-iEv -e=code -l=code"),
    _language("Rscript|julia|osascript|ghci|ghc|groovy|scala|raku|racket|ocaml|swift|guile|tclsh"
        "|irb|sbcl|R|octave|gnuplot|jshell|maxima|sage|bsh|clj|clojure",
              "-e=code -E=code -L=code -c=code -l=code -r=code --eval=code --load=code -v:info"),
    Row("elixir|erl|iex", "runs", "mention*", "-e=code --eval=code -eval=code -run=code -s=code "
        "-pa=text -pz=text -noshell", style="single"),
    Row("java|javaw", "runs", "mention*",
        "-version:info -cp=mention -classpath=mention --class-path=mention -jar=read "
        "-javaagent=code -agentlib=code -agentpath=code", style="single"),
    Row("psql", "runs", "text text",
        "-aAbeEHnqsStwWxXzl01 -c|--command=text -d|--dbname=text -f|--file=read "
        "-F|--field-separator=text -h|--host=text -L|--log-file=write -o|--output=write "
        "-p|--port=text -P|--pset=text -R|--record-separator=text -T|--table-attr=text "
        "-U|--username=text -v|--set|--variable=text --csv --html --list --quiet --tuples-only "
        "--no-align --expanded --no-psqlrc --single-transaction --no-password --password "
        "--echo-all --echo-queries --echo-errors --echo-hidden", refine=_database),
    Row("sqlite3|mysql|mariadb|mongosh", "runs", "mention*", "",
        refine=_database),
    Row("ed|red", "runs", "write*", "-srp", refine=_ed),
    # Its language cannot open a file or run a program.
    Row("bc", "reads", "read*", "-lwsq --mathlib --warn --standard --quiet",
        samples=("bc -q a.txt",)),
)  # fmt: skip
