"""Program table: programs that read text files and print them in another form (cat, sed, jq)."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsed_script import ANY
from tillerman.core.permission.shell.programs.awk_script import OUTPUT as AWK_OUTPUT
from tillerman.core.permission.shell.programs.awk_script import only_prints as awk_only_prints
from tillerman.core.permission.shell.programs.roles import response_file
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row
from tillerman.core.permission.shell.programs.sed_script import FILES as SED_FILES
from tillerman.core.permission.shell.programs.sed_script import only_prints as sed_only_prints

_JQ_NAMED = {"--arg": 2, "--argjson": 2, "--slurpfile": 2, "--rawfile": 2}
_JQ_VALUES = frozenset({"-f", "--from-file", "-L", "--indent"})
_YQ_VALUES = frozenset({
    "-o", "--output-format", "-p", "--input-format", "-w", "--width", "-s", "--split-exp",
})  # fmt: skip
_JQ_LOADS = re.compile(r"include|import|env|ENV|load|eval")  # loads files, or prints secrets


def _tail(draft: InvocationDraft) -> None:
    """`tail +5` is the old form of `-n +5`."""
    draft.accesses[:] = [one for one in draft.accesses if not re.fullmatch(r"\+\d+", one.path)]


def _pieces(draft: InvocationDraft) -> None:
    """split and csplit name their files by a prefix."""
    if draft.program == "split":
        prefix = draft.parsed.operands[1] if len(draft.parsed.operands) > 1 else "x"
    else:
        prefix = draft.parsed.value("--prefix") or "xx"
    draft.access(prefix + ANY, "write")


def _sed(draft: InvocationDraft) -> None:
    parsed = draft.parsed
    scripts = [value for option, value in parsed.values if option.name == "--expression"]
    if "given" not in parsed.marks:
        scripts = parsed.operands[:1]
    elif any(option.name == "--file" for option, _ in parsed.values):
        draft.doubt("a script of sed that is not analyzed")
    if not all(map(sed_only_prints, scripts)):
        draft.doubt("a script of sed that can run a program or write a file")
        draft.mention(scripts)
        for script in scripts:
            draft.code(script)
            for command, path in SED_FILES.findall(script):
                draft.access(path.strip(), "write" if command in "wW" else "read")
    backup = parsed.value("--in-place")
    if backup is None and parsed.unsure:
        backup = ""  # perhaps
        draft.at_least("writes")
    if backup is None:
        return
    for path in [one.path for one in draft.accesses if one.kind == "read"]:
        draft.access(path, "write")
        if backup:
            name = backup.replace(ANY, "*")  # the shell leaves a glob that matches nothing
            draft.access(name.replace("*", path) if "*" in name else path + name, "write")


def _awk(draft: InvocationDraft) -> None:
    parsed = draft.parsed
    scripts = parsed.operands[:1] if "given" not in parsed.marks else []
    scripts += [value for option, value in parsed.values if option.name == "--source"]
    if any(not awk_only_prints(script) for script in scripts):
        draft.doubt("a script of awk that can run a program or write a file")
        draft.mention(scripts)
        for script in scripts:
            draft.code(script)
            for path in AWK_OUTPUT.findall(script):
                draft.access(path, "write")
    for option, value in parsed.values:
        if option.name == "--assign":
            draft.mention([value])
    files = parsed.operands if "given" in parsed.marks else parsed.operands[1:]
    if any(one == ("--include", "inplace") for one in _named_values(draft)):
        for file in files:
            draft.access(file, "write")
    for file in files:  # `name=value` sets a variable
        if re.match(r"[A-Za-z_]\w*=", file):
            draft.mention([file])


def _named_values(draft: InvocationDraft) -> list[tuple[str, str]]:
    return [(option.name, value) for option, value in draft.parsed.values]


def _jq(draft: InvocationDraft) -> None:
    """Options that take two words may be anywhere."""
    words, at = draft.words, 1
    files: list[str] = []
    filtered = "given" in draft.parsed.marks
    arguments = False
    while at < len(words):
        word = words[at]
        at += 1
        if count := _JQ_NAMED.get(word):
            if word in ("--slurpfile", "--rawfile"):
                files += words[at + 1 : at + 2]
            at += count
        elif word in ("--args", "--jsonargs"):
            arguments = True
        elif word in _JQ_VALUES or (draft.program == "yq" and word in _YQ_VALUES):
            at += 1
        elif not word.startswith("-") or word == "-":
            if not filtered:
                filtered = True
                if _JQ_LOADS.search(word):
                    draft.at_least("runs")
            elif draft.program == "yq" and _JQ_LOADS.search(word):  # `yq eval EXPRESSION FILE`
                draft.at_least("runs")
                files.append(word)
            elif not arguments:
                files.append(word)
    for file in files:
        draft.access(file, "read")
        if "inplace" in draft.parsed.marks:
            draft.access(file, "write")


_COUNTED = (
    "-c|--bytes=text -n|--lines=text -q|--quiet|--silent -v|--verbose -z|--zero-terminated -#"
)
_SUMS = (
    "-bctwz --binary --check --tag --untagged --text --zero --ignore-missing --quiet --status "
    "--strict --warn -a|--algorithm=text -l|--length=text --debug"
)

ROWS = (
    Row("cat", "reads", "read*",
        "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
        "--show-nonprinting", samples=("cat a.txt", "cat -n a.txt src/b.py")),
    Row("bat|batcat", "reads", "read*",
        "-AnpPSusfdLV -l|--language=text -H|--highlight-line=text -r|--line-range=text "
        "-m|--map-syntax=text --style=text --color=text --decorations=text --italic-text=text "
        "--paging=text --pager=program --theme=text --tabs=text --wrap=text --file-name=text "
        "--terminal-width=text --diff-context=text --ignored-suffix=text --show-all --plain "
        "--number --diff --squeeze-blank --chop-long-lines --force-colorization --list-themes "
        "--list-languages --no-config", samples=("bat -pp a.txt",)),
    Row("tac", "reads", "read*", "-br -s|--separator=text --before --regex",
        samples=("tac a.txt",)),
    Row("head", "reads", "read*", _COUNTED, samples=("head -3 a.txt", "head -n 1 -q a.txt")),
    Row("tail", "reads", "read*",
        f"{_COUNTED} -F -f|--follow?=text --max-unchanged-stats=text --pid=text --retry "
        "-s|--sleep-interval=text", refine=_tail, samples=("tail -2 a.txt", "tail -n +2 a.txt")),
    Row("wc", "reads", "read*",
        "-cmlLw --bytes --chars --lines --max-line-length --words --files0-from=list --total=text",
        samples=("wc -l a.txt", "wc a.txt src/b.py")),
    Row("nl", "reads", "read*",
        "-p -b|--body-numbering=text -d|--section-delimiter=text -f|--footer-numbering=text "
        "-h|--header-numbering=text -i|--line-increment=text -l|--join-blank-lines=text "
        "-n|--number-format=text -s|--number-separator=text -v|--starting-line-number=text "
        "-w|--number-width=text --no-renumber", samples=("nl -ba a.txt",)),
    Row("sort", "reads", "read*",
        "-bdfgiMhnRrVmsuzC -c|--check?=text --ignore-leading-blanks --dictionary-order "
        "--ignore-case --general-numeric-sort --ignore-nonprinting --month-sort "
        "--human-numeric-sort --numeric-sort --random-sort --random-source=read --reverse "
        "--sort=text --version-sort --batch-size=text --compress-program=program --debug "
        "--files0-from=list -k|--key=text --merge -o|--output=write --stable "
        "-S|--buffer-size=text -t|--field-separator=text -T|--temporary-directory=write "
        "--parallel=text --unique --zero-terminated",
        samples=("sort a.txt", "sort -t, -k2,2n -u a.txt")),
    Row("uniq", "reads", "read write",
        "-cdDiuz --count --repeated --all-repeated?=text -f|--skip-fields=text --group?=text "
        "--ignore-case -s|--skip-chars=text --unique --zero-terminated -w|--check-chars=text -#",
        samples=("uniq -c a.txt",)),
    Row("cut", "reads", "read*",
        "-nsz -b|--bytes=text -c|--characters=text -d|--delimiter=text -f|--fields=text "
        "--complement --only-delimited "
        "--output-delimiter=text --zero-terminated", samples=("cut -d, -f1 a.txt",)),
    Row("tr", "none", "", "-cCdst --complement --delete --squeeze-repeats --truncate-set1",
        samples=("tr a b",)),
    Row("diff|colordiff", "reads", "read*",
        "-qsceynptTNPiEZbwBadu -U=text --unified?=text -C=text --context?=text --normal --brief "
        "--report-identical-files --ed --rcs --side-by-side -W|--width=text --left-column "
        "--suppress-common-lines --show-c-function -F|--show-function-line=text -L|--label=text "
        "--expand-tabs --initial-tab --tabsize=text --suppress-blank-empty -l|--paginate:runs "
        "-r|--recursive:recursive --no-dereference --new-file --unidirectional-new-file "
        "--ignore-file-name-case --no-ignore-file-name-case -x|--exclude=text "
        "-X|--exclude-from=read -S|--starting-file=text --from-file=read --to-file=read "
        "--ignore-case --ignore-tab-expansion --ignore-trailing-space --ignore-space-change "
        "--ignore-all-space --ignore-blank-lines -I|--ignore-matching-lines=text --text "
        "--strip-trailing-cr -D|--ifdef=text --minimal --horizon-lines=text --speed-large-files "
        "--color?=text --palette=text --line-format=text -#",
        samples=("diff a.txt src/b.py", "diff -ru src src", "diff -U3 a.txt a.txt")),
    Row("cmp", "reads", "read read text*",
        "-bls -i|--ignore-initial=text -n|--bytes=text --print-bytes --verbose --quiet --silent",
        samples=("cmp a.txt a.txt",)),
    Row("comm", "reads", "read*",
        "-123z --check-order --nocheck-order --output-delimiter=text --total --zero-terminated",
        samples=("comm a.txt a.txt",)),
    Row("join", "reads", "read*",
        "-iz --ignore-case --check-order --nocheck-order --header --zero-terminated -aejotv12=text",
        samples=("join a.txt a.txt",)),
    Row("paste", "reads", "read*", "-sz -d|--delimiters=text --serial --zero-terminated",
        samples=("paste -s a.txt",)),
    Row("od", "reads", "read*",
        "-abcdfiloshvx -A|--address-radix=text --endian=text -j|--skip-bytes=text "
        "-N|--read-bytes=text -S|--strings?=text -t|--format=text --output-duplicates "
        "-w|--width?=text --traditional",
        samples=("od -c a.txt", "od -A x -t x1z a.txt")),
    Row("hexdump|hd", "reads", "read*",
        "-bcCdoxv -L|--color?=text -e|--format=text -f|--format-file=read -n|--length=text "
        "-s|--skip=text --one-byte-octal --one-byte-char --canonical --two-bytes-decimal "
        "--two-bytes-octal --two-bytes-hex --no-squeezing", samples=("hexdump -C a.txt",)),
    Row("xxd", "reads", "read write",
        "-a -b -C -d -E -e -h -i -r -p -u -v -ps -plain -postscript -revert -bits -autoskip "
        "-include -uppercase -l=text -c=text -g=text -n=text -o=text -s=text -R=text -len=text "
        "-cols=text -seek=text -groupsize=text -name=text -offset=text", style="single",
        samples=("xxd a.txt", "xxd -l 8 a.txt", "xxd -p a.txt")),
    Row("base64|base32|basenc", "reads", "read*",
        "-dDi -w|--wrap=text --decode --ignore-garbage --base64 --base64url --base32 --base32hex "
        "--base16 --base2msbf --base2lsbf --z85 -o|--output=write",
        samples=("base64 a.txt", "base32 -w0 a.txt")),
    Row("md5sum|sha1sum|sha224sum|sha256sum|sha384sum|sha512sum|b2sum"
        "|cksum|sum|shasum|md5", "reads",
        "read*", f"{_SUMS} -r -s --sysv", samples=("md5sum a.txt", "sha256sum a.txt")),
    Row("fold|fmt", "reads", "read*",
        "-bsctu -p|--prefix=text -w|--width=text -g|--goal=text --bytes --spaces --crown-margin "
        "--split-only --tagged-paragraph --uniform-spacing -#",
        samples=("fold -w 10 a.txt", "fmt a.txt")),
    Row("pr", "reads", "read*",
        "-acdfFJmrtTv --columns=text -D|--date-format=text -e|--expand-tabs?=text "
        "-h|--header=text -i|--output-tabs?=text -l|--length=text -n|--number-lines?=text "
        "-N|--first-line-number=text -o|--indent=text -s|--separator?=text -S|--sep-string?=text "
        "-w|--width=text -W|--page-width=text --across --show-control-chars --double-space "
        "--form-feed --join-lines --merge --no-file-warnings --omit-header --omit-pagination "
        "--show-nonprinting -#",
        samples=("pr -t a.txt",)),
    Row("expand|unexpand", "reads", "read*", "-ai -t|--tabs=text --initial --all --first-only -#",
        samples=("expand a.txt",)),
    Row("rev|tsort", "reads", "read*", "-0 --zero", samples=("rev a.txt", "tsort a.txt")),
    Row("column|colrm", "reads", "read*",
        "-tdeLJx -n|--table-name=text -O|--table-order=text -N|--table-columns=text "
        "-l|--table-columns-limit=text -E|--table-noextreme=text -H|--table-hide=text "
        "-R|--table-right=text -T|--table-truncate=text -W|--table-wrap=text -r|--tree=text "
        "-i|--tree-id=text -p|--tree-parent=text -c|--output-width=text -o|--output-separator=text "
        "-s|--separator=text --table --table-noheadings --table-header-repeat --keep-empty-lines "
        "--json --fillrows", samples=("column -t a.txt",)),
    Row("iconv", "reads", "read*",
        "-cls -f|--from-code=text -t|--to-code=text -o|--output=write --list --silent --verbose",
        samples=("iconv -f utf8 -t ascii a.txt",)),
    Row("strings", "reads", "read*",
        "-adfow -n|--bytes=text -t|--radix=text -T|--target=text -e|--encoding=text "
        "-U|--unicode=text -s|--output-separator=text --all --data --print-file-name "
        "--include-all-whitespace -#",
        refine=response_file, samples=("strings a.txt",)),
    Row("look", "reads", "text read", "-abdf -t|--terminate=text", samples=()),
    Row("ptx", "reads", "read*", "-AGrftC -b|--break-file=read -i|--ignore-file=read "
        "-o|--only-file=read -g|--gap-size=text -w|--width=text", when=(("old", "read write"),)),
    Row("shuf", "reads", "read*",
        "-rz -e|--echo:echo -i|--input-range=text -n|--head-count=text -o|--output=write "
        "--random-source=read --repeat --zero-terminated", when=(("echo", ""),),
        samples=("shuf -n1 a.txt", "shuf -e a b")),
    Row("split", "writes", "read",
        "-dxeu -a|--suffix-length=text --additional-suffix=text -b|--bytes=text "
        "-C|--line-bytes=text --numeric-suffixes?=text --hex-suffixes?=text --elide-empty-files "
        "--filter=shell:doubt -l|--lines=text -n|--number=text -t|--separator=text --unbuffered "
        "--verbose -#", refine=_pieces),
    Row("csplit", "writes", "read text*",
        "-ksqz -b|--suffix-format=text -f|--prefix=text --keep-files --suppress-matched "
        "-n|--digits=text --quiet --silent --elide-empty-files", refine=_pieces),
    Row("sed|gsed|ssed", "reads", "text read*",
        "-nsuzEr --quiet --silent --debug -e|--expression=text:given -f|--file=read:given "
        "--follow-symlinks -i|-I|--in-place?=text:inplace -l|--line-length=text --posix "
        "--regexp-extended --separate --sandbox --unbuffered --null-data", refine=_sed,
        samples=("sed -n 1,2p a.txt", "sed s/a/b/g a.txt", "sed -n '/x/p;$=' a.txt")),
    Row("awk|gawk|mawk|nawk|original-awk", "reads", "text read*",
        "-cCgMnNOPrsSthV -F|--field-separator=text -v|--assign=text -f|--file=code:given "
        "-i|--include=code -l|--load=code -E|--exec=code:given -o|--pretty-print?=write "
        "-d|--dump-variables?=write -p|--profile?=write -D|--debug?=code -e|--source=text:given "
        "-W=code -b|--characters-as-bytes --posix --re-interval --sandbox --lint?=text",
        style="posix", refine=_awk,
        samples=("awk '{print $1}' a.txt", "awk -F, 'NR>1 {n++} END {print n}' a.txt")),
    Row("jq|gojq|jaq", "reads", "",
        "-cnesrRCMSaj -f|--from-file=read:given,runs -L=code --tab --indent=text --arg --argjson "
        "--slurpfile --rawfile --args --jsonargs --compact-output --null-input --exit-status "
        "--slurp --raw-output --raw-input --color-output --monochrome-output --sort-keys "
        "--ascii-output --join-output --raw-output0 --stream "
        "--stream-errors --seq --unbuffered", refine=_jq,
        samples=("jq . data.json", "jq -r .a data.json", "jq --arg x 1 .a data.json")),
    Row("yq", "reads", "",
        "-cneRCMSajyYPNtmvr -o|--output-format=text -p|--input-format=text -w|--width=text "
        "-s|--split-exp=text:runs -f|--from-file=read:given,runs -L=code --tab "
        "--indent=text --arg --argjson --slurpfile --rawfile --args --jsonargs --yaml-output "
        "--yml-output --yaml-roundtrip --yml-roundtrip --indentless-lists --indentless "
        "-i|--in-place:inplace --exit-status --slurp --raw-output "
        "--no-colors --prettyPrint", refine=_jq, samples=()),
)  # fmt: skip
