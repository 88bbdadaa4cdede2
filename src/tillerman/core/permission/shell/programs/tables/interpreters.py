"""Program table: interpreters that run code from a file, an option, or standard input."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tillerman.core.permission.shell.parsed_script import ANY, is_open
from tillerman.core.permission.shell.programs.mentions import outputs
from tillerman.core.permission.shell.programs.options import grammar, parse
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_MODULES_THAT_RUN_WORDS = frozenset({
    "timeit", "pdb", "code", "runpy", "profile", "cProfile", "trace", "zipfile", "tarfile",
    "json.tool", "idlelib", "idlelib.idle", "asyncio", "sqlite3", "pickle", "doctest", "ensurepip",
})  # fmt: skip
_MODULES_THAT_FILL = ("venv", "virtualenv", "compileall", "py_compile")
_SCRIPT_OPTIONS = ("-c", "-e", "--command", "--execute")
# Commands of the database clients: what follows may be files.
_CLIENT_COMMAND = re.compile(r"(?im)(?:^\s*\.\w+|\\\w+|^\s*source|^\s*tee)[ \t]+([^\n]*)")
_DATABASE_OUTPUT = re.compile(
    # those of sqlite3 may be abbreviated
    r"(?im)^\s*\.(?:(?:ou?|onc?|ba|sav?|log?|exc?|du|cl|op|tra?|ar|cd?|au|sc|vf)\w*|backup)"
    r"(?:\s+-\S+)*\s+['\"]?([^\s'\"|]+)"
    r"|(?:\\[og]|^\s*tee)\s+['\"]?([^\s'\"|]+)"
    r"|(?:vacuum\s+(?:\w+\s+)?into|writefile\W*?\(|attach(?:\s+database)?|outfile|dumpfile)\s*"
    r"['\"]([^'\"\n]+)"
)
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)|--[^\n]*", re.DOTALL)
_SQLITE = (
    "-cmd=text -init=text -separator=text -nullvalue=text -newline=text -maxsize=text -mmap=text "
    "-heap=text -nonce=text -vfs=text -escape=text -bail -batch -box -column -csv -header "
    "-noheader -html -interactive -json -line -list -markdown -memtrace -nofollow -quote "
    "-readonly:readonly -safe -stats -table -tabs -ascii -echo -append -deserialize -zip -utf8"
)
_HARMLESS_SQL = re.compile(
    r"(?is)\s*(select|\.tables|\.schema|explain|pragma \w+)\b"
    r"(?!.*(\.(shell|system|load|import|output|once|excel)|load_extension|\bedit\W*\(|writefile"
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
    for word in _written_by(module, arguments):
        draft.access(word, "write", recursive=module in _MODULES_THAT_FILL)
    for word in outputs([module, *arguments]):
        draft.access(word, "write")
    if module in ("pip", "pytest", "build", "venv", "mypy", "ruff", "black"):
        draft.others.append(" ".join([module, *arguments]))
    draft.mention(arguments)


def _written_by(module: str, arguments: Sequence[str]) -> Sequence[str]:
    operands = [one for one in arguments if not one.startswith("-")]
    match module:
        case "json.tool":
            return operands[1:2]
        case "zipfile" | "tarfile":
            makes = any(one.startswith(("-c", "--create")) for one in arguments)
            fills = any(one.startswith(("-e", "--extract")) for one in arguments)
            return operands[:1] if makes else operands[1:2] if fills else ()
    return operands if module in _MODULES_THAT_FILL else ()


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
        backup = (draft.parsed.value("-i") or "").replace(ANY, "*")
        if backup and ("*" in backup or "/" in backup):
            for path in operands:  # each `*` is the name of the file
                folder, _, name = path.rpartition("/")
                name = backup.replace("*", name) if "*" in backup else name + backup
                draft.access(name if "/" in name else f"{folder or '.'}/{name}", "write")
    elif draft.doubts:
        draft.mention(operands)
    _file_or_input(draft)


def _sqlite(draft: InvocationDraft) -> None:
    """The options are a single dash or two; the first operand is the database."""
    words = [re.sub("^--", "-", word) for word in draft.words[1:]]
    parsed = parse(words, grammar(_SQLITE, "single"), "single")
    file, *scripts = parsed.operands or [""]
    scripts += [value for option, value in parsed.values if option.name == "-cmd"]
    for option, value in parsed.values:
        if option.name == "-init":
            draft.access(value, "read")
            draft.doubt("a script of sqlite3 that is not analyzed")
    if parsed.unknown:  # among them -A, which reads and writes archives
        for path in (*parsed.operands, *(word.lstrip("-A") for word in parsed.unknown)):
            draft.access(path, "write")
    if file != ":memory:" and "readonly" not in parsed.marks:
        draft.access(_of_address(file), "write")
    _scripts(draft, scripts)


def _of_address(file: str) -> str:
    """`file:NAME?mode=ro` is another name for NAME."""
    return re.sub(r"^file:(?://(?:localhost)?(?=/))?|[?#].*", "", file)


def _database(draft: InvocationDraft) -> None:
    """Their languages have commands that run programs and write files."""
    words = draft.words
    scripts = [words[at + 1] for at in range(len(words) - 1) if words[at] in _SCRIPT_OPTIONS]
    _scripts(draft, scripts)


def _scripts(draft: InvocationDraft, scripts: Sequence[str]) -> None:
    plain = [_COMMENT.sub(" ", script) for script in scripts]
    if not plain or not all(map(_HARMLESS_SQL.match, plain)):
        draft.doubt(f"a script of {draft.program} that is not analyzed")
    for script in (*plain, _COMMENT.sub(" ", draft.stdin.text or "")):
        draft.code(script)
        for rest in _CLIENT_COMMAND.findall(script):
            draft.mention(rest.replace("'", " ").replace('"', " ").split())
        for found in _DATABASE_OUTPUT.findall(script):
            draft.access(_of_address(next(filter(None, found))), "write")


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
              "--preserve-symlinks --run=text --title=text --stack-trace-limit=text --cpu-prof "
              "--heap-prof --cpu-prof-dir=write --heap-prof-dir=write --cpu-prof-name=text "
              "--heap-prof-name=text --diagnostic-dir=write --redirect-warnings=write "
              "--report-dir=write --report-directory=write --trace-event-file-pattern=write "
              "--trace-event-categories=text "
              "--test-reporter-destination=write --snapshot-blob=write --localstorage-file=write "
              "--tls-keylog=write --logfile=write --env-file-if-exists=code "
              "--openssl-config=code --icu-data-dir=read --experimental-sea-config=code"),
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
    Row("sqlite3", "runs", "mention*", "", refine=_sqlite),
    Row("mysql|mariadb|mongosh", "runs", "mention*", "", refine=_database),
    Row("ed|red", "runs", "write*", "-srp", refine=_ed),
    # Its language cannot open a file or run a program.
    Row("bc", "reads", "read*", "-lwsq --mathlib --warn --standard --quiet",
        samples=("bc -q a.txt",)),
)  # fmt: skip
