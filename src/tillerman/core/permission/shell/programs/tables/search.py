"""Program table: programs that search files by content or name (grep, rg, fd, find)."""

from __future__ import annotations

from tillerman.core.permission.shell.programs.find_expression import describe_find
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row


def _directories(draft: InvocationDraft) -> None:
    """`-d recurse` is equivalent to `-r`."""
    value = draft.parsed.value("--directories")
    if value is not None and "recurse".startswith(value[:3]):
        for one in list(draft.accesses):
            draft.access(one.path, "read", recursive=True)
        if len(draft.accesses) == 0:
            draft.access(".", "read", recursive=True)


def _fd(draft: InvocationDraft) -> None:
    """Everything after `-x` or `-X` is the command."""
    for at, word in enumerate(draft.words[1:], 1):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            draft.doubt(f"{word} of fd runs what it finds")
            draft.access(".", "read", recursive=True)
            draft.run(draft.words[at + 1 :], "both")
            return


_GREP = (
    "-IEFGPiwxzsvbnHhoqaLlcTZUuy -e|--regexp=text:given -f|--file=read:given -m|--max-count=text "
    "-A|--after-context=text -B|--before-context=text -C|--context=text -d|--directories=text "
    "-D|--devices=text -r|--recursive:recursive -R|--dereference-recursive:recursive,follows "
    "--include=only --exclude=text --exclude-from=read --exclude-dir=text --extended-regexp "
    "--fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --word-regexp "
    "--line-regexp --null-data --no-messages --invert-match --byte-offset --line-number "
    "--line-buffered --with-filename --no-filename --label=text --only-matching --quiet --silent "
    "--binary-files=text --text --files-without-match --files-with-matches --count --initial-tab "
    "--null --group-separator=text --no-group-separator --color?=text --colour?=text --binary "
    "-V:info -#"
)

ROWS = (
    Row("grep|egrep|fgrep|ggrep", "reads", "text read*", _GREP, default="read",
        needs="recursive", refine=_directories,
        samples=("grep -n x a.txt", "grep -rl x .", "grep -ex -i a.txt src/b.py")),
    # A script: for -f it creates a temporary file.
    Row("zgrep", "reads", "text read*", _GREP.replace("=read:given", "=read:given,runs"),
        samples=("zgrep -n x a.txt",)),
    Row("rgrep", "reads", "text read/*", _GREP, default="read/", samples=("rgrep x src",)),
    Row("rg", "reads", "text read/*",
        "-abcFHhiIlnNoPqsSUvVwx0p -L|--follow:follows -z|--search-zip:runs "
        "-.|--hidden:hidden -u|--unrestricted:hidden "
        "-e|--regexp=text:given -f|--file=read:given -g|--glob=text --iglob=text -t|--type=text "
        "-T|--type-not=text -A|--after-context=text -B|--before-context=text -C|--context=text "
        "-m|--max-count=text -M|--max-columns=text -d|--max-depth=text -j|--threads=text "
        "-r|--replace=text -E|--encoding=text --sort=text --sortr=text --color=text --colors=text "
        "--context-separator=text --engine=text --ignore-file=read --max-filesize=text "
        "--path-separator=text --pre=program --pre-glob=text --hostname-bin=program "
        "--hyperlink-format=text --files:given,names --type-list --json --count --count-matches "
        "--files-with-matches --files-without-match --fixed-strings --heading "
        "--no-heading --ignore-case --invert-match --line-number --no-line-number --multiline "
        "--multiline-dotall --no-ignore:hidden --no-ignore-vcs --no-filename --with-filename "
        "--null --only-matching --passthru --pcre2 --pretty --quiet "
        "--smart-case --case-sensitive --stats --text --trim --vimgrep --word-regexp "
        "--line-regexp --column --no-messages --no-config --crlf --debug --glob-case-insensitive "
        "--one-file-system --max-columns-preview", default="read/", skips_hidden=True,
        samples=("rg -n x src",)),
    Row("ag", "reads", "text read/*",
        "-aCcDFgHilLmnoQrRsStuUvwzS0 -f|--follow:follows "
        "-A=text -B=text --hidden:hidden --nocolor --color --nogroup "
        "--group --literal --ignore=text --ignore-dir=text --depth=text --pager=program --stats "
        "--unrestricted:hidden -G|--file-search-regex=text -p|--path-to-ignore=read",
        default="read/", skips_hidden=True, samples=("ag x src",)),
    Row("fd|fdfind", "reads", "text read/*",
        "-IsiaglLp0q1 -H|--hidden:hidden -u|--unrestricted:hidden -t|--type=text "
        "-e|--extension=text -d|--max-depth=text -E|--exclude=text -S|--size=text -c|--color=text "
        "-j|--threads=text --min-depth=text --exact-depth=text --changed-within=text "
        "--changed-before=text -o|--owner=text -x|--exec:doubt -X|--exec-batch:doubt "
        "--base-directory=dir --search-path=read/ --ignore-file=read --no-ignore --absolute-path "
        "--list-details --follow --full-path --print0 --glob --regex --fixed-strings "
        "--case-sensitive --ignore-case --prune --strip-cwd-prefix", default="read/",
        skips_hidden=True, names_only=True, refine=_fd, samples=("fd b src",)),
    Row("find|gfind", "reads", own=True, refine=describe_find,
        samples=("find . -name '*.py'", "find src -type f -newer a.txt -print0",
                 "find . -maxdepth 2 \\( -name a -o -name b \\) -ls")),
    Row("locate|plocate|mlocate", "reads", "", "-AbceiLnpqrsSw0 -d=read -l=text", samples=()),
)  # fmt: skip
