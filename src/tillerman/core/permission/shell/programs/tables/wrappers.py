"""Program table: wrappers, which run the command after their own options (sudo, env, xargs)."""

from __future__ import annotations

import re
from collections.abc import Callable

from tillerman.core.permission.shell.parsed_script import HOLE, joined
from tillerman.core.permission.shell.programs.invocation import DecidedAs, NestedCommand
from tillerman.core.permission.shell.programs.options import grammar, parse
from tillerman.core.permission.shell.programs.roles import suffixes, take
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_PLAIN = re.compile(r"[\w./:@%+,=\s-]*")
_XARGS = (
    "-rtpxo -0|--null:nul -a|--arg-file=read -d|--delimiter=text:split -e?=text -E=text:split "
    "--eof?=text "
    "-I=text:replace -i?=text:replace --replace?=text:replace -L=text:split -l?=text:split "
    "--max-lines?=text:split -n|--max-args=text:split -P|--max-procs=text "
    "-s|--max-chars=text:split --process-slot-var=text --no-run-if-empty --verbose "
    "--interactive --exit --open-tty --show-limits"
)
_ONLY_TELLS = frozenset({"--help", "--version", "--list", "-h", "-V"})
_STARTS_SHELL = re.compile(r"-[A-Za-z]*[si][A-Za-z]*|--shell|--login")
_FIRST_PERSON = (
    "-AbBEHKklnNPSsv -e|--edit:edit -i|--login:login -C|--close-from=text -D|--chdir=dir "
    "-g|--group=text -h|--host=text -p|--prompt=text -R|--chroot=text -r|--role=text "
    "-T|--command-timeout=text -t|--type=text -U|--other-user=text -u|--user=text "
    "-c|--login-class=text -a|--auth-type=text --preserve-env?=text --askpass --background --bell "
    "--set-home --remove-timestamp --reset-timestamp --list --non-interactive --preserve-groups "
    "--stdin --shell --validate"
)


def _env(draft: InvocationDraft) -> None:
    """With -S, one argument contains options, assignments and the command."""
    split = draft.parsed.value("--split-string")
    rest = draft.words[1 + draft.parsed.rest :]
    if split is None:
        if not draft.runs:
            draft.at_least("runs")  # prints all variables, which may contain secrets
        return
    draft.doubt("env splits its argument itself")
    draft.runs.clear()
    if _PLAIN.fullmatch(split):
        draft.run(["env", *split.split(), *rest], "inner")
    else:
        draft.script(" ".join([split, *rest]).replace(HOLE, "$_"), "inner")


def _xargs(draft: InvocationDraft) -> None:
    """The input becomes further arguments of the command, or replaces a mark in it."""
    if not draft.runs:
        if not draft.parsed.unknown and not draft.parsed.open:
            draft.effect = "reads" if draft.accesses else "none"  # it runs echo
        return
    words = list(draft.runs[0].words)
    draft.runs.clear()
    mark = _mark(draft)
    if mark is not None:
        filled = [word.replace(mark, HOLE) for word in words]
    else:
        filled = [*words, *_given(draft)]
    inherits = draft.parsed.value("--arg-file") is not None
    draft.runs.append(NestedCommand(tuple(filled), stdin="inherits" if inherits else "none"))


def _mark(draft: InvocationDraft) -> str | None:
    values = [value for option, value in draft.parsed.values if "replace" in option.marks]
    return (values[-1] or "{}") if values else None


def _given(draft: InvocationDraft) -> list[str]:
    text = draft.stdin.text
    file = draft.parsed.value("--arg-file")
    if text is None or not draft.stdin.certain or file or "split" in draft.parsed.marks:
        return [HOLE]
    if "nul" in draft.parsed.marks:
        return text.removesuffix("\0").split("\0")
    return text.split() if _PLAIN.fullmatch(text) else [HOLE]


def _su(draft: InvocationDraft) -> None:
    """Arguments after the user are for a shell."""
    rest = draft.parsed.operands[1:]
    if draft.parsed.operands[:1] == ["-"]:
        rest = rest[1:]
        draft.parsed.marks.add("login")
    _log_in(draft)
    if rest:
        draft.run(["sh", *rest], "whole")
    _shell_without_command(draft)
    draft.others += suffixes(draft.words)


def _log_in(draft: InvocationDraft) -> None:
    """A login shell starts in a home directory."""
    if "login" in draft.parsed.marks:
        draft.directory = HOLE


def _sg(draft: InvocationDraft) -> None:
    """`sg GROUP -c SCRIPT`, where -c is optional."""
    rest = [word for word in draft.words[1:] if word != "-"][1:]
    if rest:
        draft.script(" ".join(rest[rest[0] == "-c" :]).replace(HOLE, "$_"))
    draft.others += suffixes(draft.words)


def _sudo(draft: InvocationDraft) -> None:
    _log_in(draft)
    if "edit" in draft.parsed.marks:
        for run in draft.runs:
            for word in run.words:
                draft.access(word, "write")
        draft.runs.clear()
    if draft.runs:
        words = list(draft.runs[0].words)
        draft.others.append(joined(words))
    elif any(map(_STARTS_SHELL.fullmatch, draft.words[1:])):
        draft.run(["sh"], "whole")


def _sudoedit(draft: InvocationDraft) -> None:
    for word in draft.parsed.operands:
        draft.access(word, "write")


def _flock(draft: InvocationDraft) -> None:
    """`flock FILE -c SCRIPT`: -c may also follow the file."""
    words = [list(run.words) for run in draft.runs]
    if words and words[0][:1] in (["-c"], ["--command"]):
        draft.runs.clear()
        draft.script(" ".join(words[0][1:]).replace(HOLE, "$_"), "inner")


def _script(draft: InvocationDraft) -> None:
    """Records to the given file, or to `typescript`."""
    for file in draft.parsed.operands[:1] or ["typescript"]:
        draft.access(file, "write")
    if not draft.runs:
        draft.doubt("a shell that runs its input")
    draft.others += suffixes(draft.words)


def _shell_without_command(draft: InvocationDraft) -> None:
    """Without a command it starts a shell, which reads commands from standard input."""
    if not draft.runs and not _ONLY_TELLS.intersection(draft.words[1:]):
        draft.run(["sh"], "whole")


def _architecture(draft: InvocationDraft) -> None:
    """`setarch ARCH -R COMMAND`: the architecture is optional."""
    if draft.runs and draft.parsed.rest == 0:
        draft.runs.clear()
        behind = parse(draft.words[2:], grammar(draft.row.options), "posix")
        if behind.unknown:
            draft.doubt(f"an unknown option of setarch: {behind.unknown[0]}")
            draft.others += suffixes(draft.words)
        if rest := draft.words[2 + behind.rest :]:
            draft.run(rest, "whole")
    _shell_without_command(draft)


def _pid(draft: InvocationDraft) -> None:
    """With -p the arguments are process ids."""
    if "pid" in draft.parsed.marks:
        draft.runs.clear()


def _unread(draft: InvocationDraft) -> None:
    draft.doubt(f"{draft.program} runs commands that cannot be analyzed")
    _anywhere(draft)
    draft.code(" ".join(draft.words[1:]))
    draft.code(draft.stdin.text or "")


def _anywhere_or_shell(draft: InvocationDraft) -> None:
    if len(draft.words) <= 2:
        _shell_without_command(draft)
    _anywhere(draft)


def _anywhere(draft: InvocationDraft) -> None:
    """Its options are many: the command may begin at any argument."""
    draft.others += suffixes(draft.words)
    draft.mention(draft.words[1:])
    for word in draft.words[1:]:
        if re.search(r"\s", word):
            draft.script(word.replace(HOLE, "$_"))


def _loader(draft: InvocationDraft) -> None:
    options = grammar("--library-path=text --inhibit-cache --preload=code --audit=code "
                      "--argv0=text --list --verify --inhibit-rpath=text")  # fmt: skip
    parsed = parse(draft.words[1:], options, "posix")
    draft.doubt("a program that is started by the dynamic loader")
    for option, value in parsed.values:
        take(draft, option.role, value, option.name)
    if rest := draft.words[1 + parsed.rest :]:
        draft.run(rest, "inner")


def _mount(draft: InvocationDraft) -> None:
    """A folder that is mounted elsewhere is reached by both names."""
    operands = draft.parsed.operands
    binds = "binds" in draft.parsed.marks or "bind" in (draft.parsed.value("--options") or "")
    if binds and len(operands) == 2:
        draft.links.append((operands[0], operands[1]))


def _start_daemon(draft: InvocationDraft) -> None:
    for at, word in enumerate(draft.words):
        if word in ("-x", "--exec", "-a", "--startas"):
            rest = draft.words[draft.words.index("--") + 1 :] if "--" in draft.words else ()
            draft.run([*draft.words[at + 1 : at + 2], *rest], "whole")
    draft.others += suffixes(draft.words)


def _wrapper(
    names: str,
    options: str = "",
    decided: DecidedAs = "inner",
    *,
    operands: str = "",
    skip: int = 0,
    shell: bool = False,
    assignments: bool = False,
    remote: bool = False,
    refine: Callable[[InvocationDraft], None] | None = None,
) -> Row:
    return Row(
        names,
        operands=operands,
        options=options,
        style="posix",
        command=decided,
        skip=skip,
        shell=shell,
        assignments=assignments,
        remote=remote,
        refine=refine,
    )


_LIMITS = " ".join(
    f"-{letter}|--{name}?=text" for letter, name in zip(
        "cdefilmnqrstuvxy",
        ("core", "data", "nice", "fsize", "sigpending", "memlock", "rss", "nofile", "msgqueue",
         "rtprio", "stack", "cpu", "nproc", "as", "locks", "rttime"), strict=True)
)  # fmt: skip
_SPACES = " ".join(
    f"-{letter}|--{name}?=text" for letter, name in zip(
        "muinpUCT", ("mount", "uts", "ipc", "net", "pid", "user", "cgroup", "time"), strict=True)
)  # fmt: skip

ROWS = (
    _wrapper("nohup|noglob|nocorrect|-|catchsegv|unbuffer|chronic|dbus-run-session"),
    _wrapper("fakeroot", "-uv -s=write -i=read -b=text -l|--lib=code -f|--faked=program "
             "--unknown-is-real --fd-base=text"),
    _wrapper("busybox|toybox", "--list --install:writes"),
    _wrapper("setsid", "-cfw --ctty --fork --wait"),
    _wrapper("time|gtime", "-apvqV -f|--format=text -o|--output=write --append --portability "
             "--verbose --quiet"),
    _wrapper("nice|gnice", "-n|--adjustment=text -#"),
    _wrapper("ionice", "-t -c|--class=text -n|--classdata=text -p|--pid=text:pid "
             "-P|--pgid=text:pid -u|--uid=text:pid --ignore", refine=_pid),
    _wrapper("stdbuf|gstdbuf", "-i|--input=text -o|--output=text -e|--error=text"),
    _wrapper("timeout|gtimeout", "-fpv -k|--kill-after=text -s|--signal=text --foreground "
             "--preserve-status --verbose", skip=1),
    _wrapper("env|genv", "-i0v -u|--unset=text -C|--chdir=dir -S|--split-string=text "
             "-a|--argv0=text --ignore-environment --null --debug --block-signal?=text "
             "--default-signal?=text --ignore-signal?=text "
             "--list-signal-handling", assignments=True, refine=_env),
    _wrapper("xargs|gxargs", _XARGS, refine=_xargs),
    _wrapper("repeat", skip=1),
    _wrapper("flock", "-sxuneoF -w|--timeout|--wait=text -E|--conflict-exit-code=text --shared "
             "--exclusive --unlock --nonblock --nb --close --no-fork --verbose", operands="write",
             skip=1, refine=_flock),
    _wrapper("taskset", "-ac -p|--pid:pid --all-tasks --cpu-list", skip=1, refine=_pid),
    _wrapper("prlimit", f"{_LIMITS} -p|--pid=text:pid -o|--output=text --noheadings --raw "
             "--verbose", refine=_pid),
    _wrapper("chrt", "-bdfiorRamv -p|--pid:pid -T|--sched-runtime=text -P|--sched-period=text "
             "-D|--sched-deadline=text --batch --deadline --fifo --idle --other --rr "
             "--reset-on-fork --all-tasks --max --verbose", skip=1, refine=_pid),
    _wrapper("setarch", "-BFILRSTXZ3v --32bit --fdpic-funcptrs --short-inode --addr-compat-layout "
             "--addr-no-randomize --whole-seconds --sticky-timeouts --read-implies-exec "
             "--mmap-page-zero --3gb --4gb --uname-2.6 --verbose --list", "whole",
             refine=_architecture),
    _wrapper("linux32|linux64|x86_64|i386|i686", "-BFILRSTXZ3v", "whole",
             refine=_shell_without_command),
    _wrapper("choom", "-n|--adjust=text -p|--pid=text:pid", refine=_pid),
    _wrapper("runcon", "-c -t|--type=text -u|--user=text -r|--role=text -l|--range=text --compute",
             "whole"),
    _wrapper("faketime", "-mp -f=text --exclude-monotonic", "whole", skip=1),
    _wrapper("caffeinate", "-disum -t=text -w=text"),
    _wrapper("ssh-agent", "-cDdks -a=write -E=text -O=text -P=code -t=text", "whole"),
    _wrapper("sudo", _FIRST_PERSON, "whole", assignments=True, refine=_sudo),
    _wrapper("doas", "-Lns -a=text -C=read -u=text", "whole", refine=_sudo),
    Row("sudoedit", "runs", "", _FIRST_PERSON, refine=_sudoedit),
    Row("sg", "runs", own=True, refine=_sg),
    Row("su|runuser|newgrp", "runs", "",
        "-mpfP -c|--command=shell --session-command=shell -s|--shell=program -g|--group=text "
        "-G|--supp-group=text -w|--whitelist-environment=text -u|--user=text -l|--login:login "
        "--pty --fast --preserve-environment", refine=_su),
    _wrapper("pkexec", "--user=text --disable-internal-agent --keep-cwd", "whole"),
    _wrapper("gosu|su-exec", "", "whole", skip=1),
    _wrapper("chroot", "--groups=text --userspec=text --skip-chdir", "whole", operands="dir",
             skip=1, refine=_shell_without_command),
    _wrapper("unshare", f"{_SPACES} -frc --fork --map-user=text --map-group=text --map-root-user "
             "--map-current-user --map-auto --map-users=text --map-groups=text --kill-child?=text "
             "--mount-proc?=text --propagation=text --setgroups=text --keep-caps -R|--root=dir "
             "-w|--wd=dir -S|--setuid=text -G|--setgid=text "
             "--monotonic=text --boottime=text", "whole", refine=_shell_without_command),
    _wrapper("nsenter", f"{_SPACES} -aFZ -t|--target=text -S|--setuid=text -G|--setgid=text "
             "-r|--root?=dir -w|--wd?=dir -W|--wdns=dir --all --preserve-credentials "
             "--no-fork --follow-context", "whole", refine=_shell_without_command),
    _wrapper("setpriv", "-d --dump --nnp --no-new-privs --ambient-caps=text --inh-caps=text "
             "--bounding-set=text --ruid=text --euid=text --rgid=text --egid=text --reuid=text "
             "--regid=text --clear-groups --keep-groups --init-groups --groups=text "
             "--securebits=text --pdeathsig=text --selinux-label=text --apparmor-profile=text "
             "--reset-env", "whole"),
    _wrapper("systemd-run", "-dGPqrSt --user --system --scope -u|--unit=text -p|--property=code "
             "--description=text --slice=text -M|--machine=text --working-directory=dir "
             "-E|--setenv=text --uid=text --gid=text --nice=text --pty --pipe --wait --collect "
             "--quiet --no-block --shell --same-dir --on-active=text", "whole"),
    _wrapper("xvfb-run", "-al -e|--error-file=write -f|--auth-file=write -n|--server-num=text "
             "-s|--server-args=text -p=text -w=text --auto-servernum", "whole"),
    _wrapper("watch|viddy", "-bcegprtw -d|--differences?=text -n|--interval=text -q|--equexit=text "
             "-x|--exec --beep --color --errexit --chgexit --precise --no-title --no-wrap", "whole",
             shell=True),
    _wrapper("strace|ltrace", "-ACdDfFhiknqrtTvVwxyYzZ -a=text -b=text -e=text -E=text -I=text "
             "-o=write -O=text -p=text -P=text -s=text -S=text -u=text -U=text -X=text -l=text -L "
             "--trace=text --output=write --env=text --user=text --attach=text --follow-forks "
             "--seccomp-bpf --string-limit=text --decode-fds?=text --quiet=text", "whole"),
    _wrapper("valgrind", "-dqv --tool=text --leak-check?=text --log-file=write "
             "--error-exitcode=text --track-origins=text --suppressions=read "
             "--show-leak-kinds=text --quiet", "whole"),
    _wrapper("hyperfine", "-iN -w|--warmup=text -r|--runs=text -m|-M=text -p|--prepare=shell "
             "-s|--setup=shell -c|--cleanup=shell -S|--shell=program --export-json=write "
             "--export-markdown=write --export-csv=write --ignore-failure", "whole", shell=True),
    Row("script", "runs", "",
        "-aefqt -c|--command=shell -I|--log-in=write -O|--log-out=write -B|--log-io=write "
        "-T|--log-timing=write --timing?=write -m|--logging-format=text -E|--echo=text "
        "-o|--output-limit=text --append --return --flush --force --quiet", refine=_script),
    Row("mount", "runs", "mention*",
        "-aflnrsvw -B|--bind|-R|--rbind|-M|--move:binds -t|--types=text "
        "-o|--options=text -L=text -U=text --mkdir?=text", refine=_mount),
    Row("start-stop-daemon", "runs", own=True, refine=_start_daemon),
    Row("ld.so", "runs", own=True, refine=_loader),
    Row("parallel|expect|at|batch|crontab|entr|run-parts|m4|dc|gdb|lldb", "runs", own=True,
        refine=_unread),
    Row("capsh|firejail|proot", "runs", own=True, refine=_anywhere_or_shell),
    Row("tmux|screen|perf|bwrap|watchexec|op|aws-vault|chamber|direnv|dotenv"
        "|ip|machinectl|vagrant|toolbox|distrobox|flatpak|snap|guix"
        "|lxc|wsl|rlwrap|sem|setuidgid", "runs",
        own=True, passes=True, refine=_anywhere),
)  # fmt: skip
