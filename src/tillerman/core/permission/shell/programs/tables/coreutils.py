"""Program table: programs that only print about files, users and the machine (ls, ps, date)."""

from __future__ import annotations

from tillerman.core.permission.shell.programs.roles import response_file
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row


def _all_processes(draft: InvocationDraft) -> None:
    """The BSD option `e` prints environments, which contain secrets."""
    words = [word for word in draft.words[1:] if not word.startswith("-")]
    if any("e" in word for word in words if word.isalpha()) or draft.parsed.unknown:
        draft.at_least("runs")


def _some_variables(draft: InvocationDraft) -> None:
    """Without a name it prints all variables, which may contain secrets."""
    if not draft.parsed.operands:
        draft.at_least("runs")


def _not_interactive(draft: InvocationDraft) -> None:
    """Its interactive keys kill processes and write its settings."""
    short = [word[1:] for word in draft.words[1:] if word.startswith("-")]
    if "batch" not in draft.parsed.marks and not any("b" in word for word in short):
        draft.at_least("runs")


def _only_formats(draft: InvocationDraft) -> None:
    """Any other operand sets the clock."""
    if any(not word.startswith("+") for word in draft.parsed.operands):
        draft.at_least("runs")


ROWS = (
    Row(
        "ls|dir|vdir", "reads", "read*",
        "-1ABCDFGHLNQSUXZabcdfghiklmnopqrstuvx -R|--recursive:recursive -w|--width=text "
        "-I|--ignore=text -T|--tabsize=text --all --almost-all --author --escape --block-size=text "
        "--ignore-backups --color?=text --directory --dired --classify?=text --file-type "
        "--format=text --full-time --group-directories-first --no-group --human-readable --si "
        "--dereference-command-line --dereference-command-line-symlink-to-dir --hide=text "
        "--hyperlink?=text --indicator-style=text --inode --kibibytes --dereference "
        "--numeric-uid-gid --literal --hide-control-chars --show-control-chars --quote-name "
        "--quoting-style=text --reverse --size --sort=text --time=text --time-style=text "
        "--context --zero",
        default="read", names_only=True,
        samples=("ls", "ls -la src", "ls -R --color=never .", "dir -w 80 src"),
    ),
    Row(
        "eza|exa", "reads", "read*",
        "-1lGxFdaArSBghHimnuUZ@ -R|--recursive:recursive -T|--tree:recursive -L|--level=text "
        "-s|--sort=text -t|--time=text -I|--ignore-glob=text --long --grid --across --icons?=text "
        "--color?=text --all --git --header --git-ignore --group-directories-first "
        "--time-style=text",
        default="read", names_only=True, samples=("eza -la",),
    ),
    Row(
        "tree", "reads", "read/*",
        "-adfilxpsughDFqNQrtUvcCAnSXJH -L=text -P=text -I=text -o=write -T=text --gitignore "
        "--matchdirs --ignore-case --prune --du --noreport --charset=text --filelimit=text "
        "--dirsfirst --si --sort?=text --timefmt=text --inodes --device --info --fromfile "
        "--gitfile=read --infofile=read --metafirst",
        default="read/", names_only=True, samples=("tree -L 2 src",),
    ),
    Row(
        "stat", "reads", "read*",
        "-Lft -c|--format=text --printf=text --cached=text --dereference --file-system --terse",
        names_only=True, samples=("stat a.txt", "stat -c %s a.txt"),
    ),
    Row(
        "file", "reads", "read*",
        "-bcdEhiIkLlnNrsSvzZ0 -m|--magic-file=read -e|--exclude=text --exclude-quiet=text "
        "-f|--files-from=list -F|--separator=text -P|--parameter=text -C|--compile:writes,runs "
        "--brief --checking-printout --mime --apple --extension --mime-type --mime-encoding "
        "--keep-going --list --dereference --no-dereference --no-buffer --no-pad --print0 --raw "
        "--special-files -p|--preserve-date:runs --uncompress --uncompress-noreport --no-sandbox "
        "--debug",
        samples=("file a.txt", "file -b --mime-type a.txt"),
    ),
    Row(
        "du", "reads", "read/*",
        "-0abcDHhkLlmPSsx -B|--block-size=text -d|--max-depth=text -t|--threshold=text "
        "-X|--exclude-from=read --exclude=text --files0-from=list --time?=text --time-style=text "
        "--null --all --apparent-size --bytes --total --dereference-args --human-readable --inodes "
        "--dereference --count-links --no-dereference --separate-dirs --si --summarize "
        "--one-file-system",
        default="read/", names_only=True, samples=("du -sh .", "du -d1 src"),
    ),
    Row(
        "df", "reads", "read*",
        "-ahHiklPTv -B|--block-size=text -t|--type=text -x|--exclude-type=text --output?=text "
        "--all --human-readable --si --inodes --local --no-sync --portability --sync --total "
        "--print-type",
        samples=("df -h .",),
    ),
    Row("pwd", "none", "", "-LP --logical --physical", samples=("pwd",)),
    Row("readlink", "reads", "read*",
        "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline "
        "--quiet --silent --verbose --zero", samples=("readlink -f a.txt",)),
    Row("realpath", "reads", "read*",
        "-emLPqsz --relative-to=read --relative-base=read --canonicalize-existing "
        "--canonicalize-missing --logical --physical --quiet --strip --no-symlinks --zero",
        samples=("realpath a.txt",)),
    Row("basename", "none", "", "-az -s|--suffix=text --multiple --zero",
        samples=("basename src/b.py .py",)),
    Row("dirname", "none", "", "-z --zero", samples=("dirname src/b.py",)),
    Row("pathchk", "none", "", "-pP --portability", samples=("pathchk a",)),
    Row("which|gwhich", "none", "", "-as", samples=("which ls",)),
    Row("whereis", "none", "", "-bmsul -BMSf:runs", samples=("whereis ls",)),
    Row("date|gdate", "none", "",
        "-uR -d|--date=text --debug -f|--file=read -I|--iso-8601?=text --resolution --rfc-email "
        "--rfc-3339=text -r|--reference=read -s|--set=text:runs --utc --universal",
        refine=_only_formats, samples=("date", "date -u +%F", "date -r a.txt")),
    Row("cal|ncal", "none", "", "-3smjyhwJ1", samples=("cal",)),
    Row("id", "none", "", "-agGnruzZ --context --group --groups --name --real --user --zero",
        samples=("id", "id -un")),
    Row("whoami|logname|groups|users|arch|tty|nproc", "none", "", "-s --all --ignore=text --silent",
        samples=("whoami", "groups", "arch", "nproc")),
    Row("uname", "none", "",
        "-asnrvmpio --all --kernel-name --nodename --kernel-release --kernel-version --machine "
        "--processor --hardware-platform --operating-system", samples=("uname -a",)),
    Row("hostname", "none", "runs*",
        "-aAdfiIsy --alias --all-fqdns --domain --fqdn --long --ip-address --all-ip-addresses "
        "--short -F|--file=read:runs -b|--boot:runs", samples=("hostname", "hostname -s")),
    Row("uptime|w|who", "none", "",
        "-abdHlmpqrsTtuwfohi --pretty --since --all --boot --count --heading --short --users "
        "--no-header --from --ip-addr", samples=("uptime", "who", "w")),
    Row("free", "none", "",
        "-bkmghltvw -s|--seconds=text -c|--count=text --bytes --kibi --mebi --gibi --human --si "
        "--lohi --total --committed --wide --kilo --mega --giga", samples=("free -h",)),
    Row("lscpu|lsblk", "none", "",
        "-ablfmpStJPOACDdinrsTyzcBx -o|--output=text -e=text --json --all --bytes --output-all "
        "--pairs --noheadings --nodeps --list", samples=("lscpu",)),
    Row("ps", "none", "",
        "-AadefFjlMLTmNHcywZ -C|--command=text -p|--pid=text -u|--user=text -o|-O|--format=text "
        "-U|-G|-g|-s|-t|-q|--ppid=text --sort=text --no-headers --no-headings --headers --forest "
        "--cols=text --columns=text --rows=text --width=text --deselect",
        refine=_all_processes, samples=("ps aux", "ps -ef", "ps -o pid,comm")),
    Row("pgrep|pidof", "none", "",
        "-flaxnovic -u|-U|-G|-g|-P|-t|-s|-d|--parent=text --full --list-name --list-full --exact "
        "--newest --oldest --count", samples=("pgrep -l bash",)),
    Row("printenv", "none", "", "-0 --null", refine=_some_variables, samples=("printenv LANG",)),
    Row("getconf|locale", "none", "", "-amck -v=text --all-locales --charmaps",
        samples=("getconf PAGE_SIZE", "locale")),
    Row("seq", "none", "", "-w -f|--format=text -s|--separator=text --equal-width -#",
        samples=("seq 1 3",)),
    Row("numfmt", "none", "",
        "-z -d|--delimiter=text --field=text --format=text --from=text --from-unit=text --grouping "
        "--header?=text --invalid=text --padding=text --round=text --suffix=text --to=text "
        "--to-unit=text --debug --zero-terminated", samples=("numfmt --to=iec 2048",)),
    Row("factor|expr|sleep|usleep|true|false|yes|test|[|echo|printf", "none", own=True,
        samples=("factor 12", "expr 1 + 2", "sleep 0", "echo a", "printf a", "test -f a.txt")),
    Row("sync", "writes", "write*", "-df --data --file-system"),
    # Without -D, which writes a cache, and the options that kill sockets or load plug-ins.
    Row("lsof", "reads", "read*",
        "-abClMnNOPQRtUvVwX -c|-d|-p|-u|-A|-e|-k|-S=text -F?=text -g?=text -i?=text -s?=text "
        "-T?=text -L?=text -o?=text", samples=("lsof -nP -i :3000", "lsof a.txt")),
    Row("ss", "none", "",
        "-naloemptuwxdSbiHOErsZz460M -f|--family=text -A|--query|--socket=text --numeric --all "
        "--listening --options --memory --extended --processes --tcp --udp --unix --raw --packet "
        "--info --summary --no-header --oneline --resolve --ipv4 --ipv6",
        samples=("ss -ltnp", "ss -s")),
    Row("netstat", "none", "",
        "-rigsvWneopacCFlNtuxwSZ46M --route --interfaces --statistics --numeric --programs "
        "--listening --all --tcp --udp --extend --timers --wide", samples=("netstat -ltn",)),
    Row("pstree|vmstat", "none", "",
        "-aAcGhlnNpstTuUZfmsdDw -g -H=text -S=text --arguments --ascii --long --show-pids",
        samples=("pstree -p", "vmstat -s")),
    Row("top", "none", "",
        "-cHiS1be -n|-d|-p|-u|-U|-o|-E=text -w?=text -l=text:batch", refine=_not_interactive,
        samples=("top -b -n 1",)),
    Row("nm", "reads", "read*",
        "-aABCDgnopPrSsuUvVlj -f|--format=text -t|--radix=text --demangle?=text --debug-syms "
        "--dynamic --extern-only --defined-only --undefined-only --numeric-sort --print-size "
        "--size-sort --reverse-sort --no-demangle --no-sort --print-armap --print-file-name "
        "--with-symbol-versions --synthetic --special-syms", refine=response_file,
        samples=("nm program", "nm -C --defined-only program")),
    Row("readelf", "reads", "read*",
        "-aedhlSgtsnruVADIWTc -p|-x|-R=text --all --headers --file-header --program-headers "
        "--segments --section-headers --sections --section-details --syms --symbols --dyn-syms "
        "--notes --relocs --unwind --dynamic --version-info --arch-specific --histogram --wide "
        "--demangle?=text --string-dump=text --hex-dump=text", refine=response_file,
        samples=("readelf -h program", "readelf -SW program", "readelf -d program")),
    Row("objdump", "reads", "read*",
        "-afphxdDsrRtTCwzF -j|--section=text -M|--disassembler-options=text -m=text -b=text "
        "--archive-headers --file-headers --private-headers --section-headers --headers "
        "--all-headers --disassemble?=text --disassemble-all --full-contents --reloc "
        "--dynamic-reloc --syms --dynamic-syms --demangle?=text --wide --no-show-raw-insn "
        "--start-address=text --stop-address=text --disassemble-zeroes --prefix-addresses",
        refine=response_file, samples=("objdump -d program", "objdump -h program")),
    Row("size", "reads", "read*",
        "-ABGdoxt --format=text --radix=text --totals --common", refine=response_file,
        samples=("size program", "size -A program")),
    Row("iostat|mpstat|ldd", "runs", "mention*", ""),
)  # fmt: skip
