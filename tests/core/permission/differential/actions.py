"""Single commands that matter to a policy: run, write, remove or read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from string import Formatter

from tests.core.permission.differential.spelling import Speller

NEW = ("new.txt", "src/new.txt", ".git/hooks/pre-commit", ".env.local", "../z", "out/z", ".mcp.json",
       ".github/workflows/x.yml", "../outside/z", "src/deep/z", "/tmp/z", "my new.txt")  # fmt: skip
OLD = ("a.txt", "src/b.txt", ".env", ".git/config", ".git/HEAD", "out/o.txt", "../outside/o.txt",
       ".github/workflows/ci.yml", "envlink", "my file.txt", "package.json")  # fmt: skip
FOLDERS = ("src", ".git", ".git/hooks", "out", "../outside", ".github", ".", "src/deep", "tools")
SECRETS = (".env", ".env", "envlink", "src/../.env", "/mnt/ws/.env")

_RUN = ("rm a.txt", "rm -rf src", "curl x", "git push", "git push origin main", "npm test", "curl",
        "git -C src push", "git --no-pager push", "git -c a.b=c push", "/usr/bin/curl x",
        "/bin/rm a.txt", "npm run build", "node x.js", "docker ps", "git status", "ls -la", "rm",
        "git log --oneline", "make", "cat a.txt", "ssh h rm x", "wget x", "git --git-dir .git push",
        "grep -r one src", "wc -l a.txt", "head -1 a.txt", "npm test -- x", "find src -name b.txt",
        "/bin/r? a.txt", "/???/rm a.txt", "/bin/[r]m a.txt", "/usr/bin/../bin/rm a.txt", "~+/tools/npm",
        "BASH_CMDS[ls]=/bin/rm; ls a.txt", "hash -p /bin/rm ls; ls a.txt", "ln -s /bin/rm q; ./q a.txt",
        "exec -a ls rm a.txt", "cp /bin/rm q; ./q a.txt", "run-parts tools", "r?", "PATH=/usr/bin/ rm a.txt",
        "rm -- a.txt", "../ws/../../usr/bin/curl x", "git diff", "npm ls", "tools/npm test")  # fmt: skip

# {w}: a path to write, {n}: one that does not exist yet, {o}: one that exists, {d}: a directory.
_WRITE = (
    *("echo x > {w}", "echo x >> {w}", "echo x >| {w}", "> {w}", ": > {w}", "echo x &> {w}"),
    *("echo x >& {w}", "echo x &>> {w}", "ls nosuch 2> {w}", "echo x 1<> {w}", "exec 3> {w}"),
    *("exec > {w}; echo x", "echo x {{fd}}> {w}", "exec {{fd}}> {w}", "echo x 3>&1 > {w}"),
    *("true > {w} 2>&1", "> {w} echo x", "echo >{w} x y", "cat > {w} <<E\nx\nE\n", "cat <<E > {w}\nx\nE\n"),
    *("cat > {w} <<< x", "printf x > {w}", "{{ echo x; }} > {w}", "(echo x) > {w}", "cat a.txt > {w}"),
    *("echo x | tee {w}", "echo x | tee -a {w}", "tee {w} < a.txt", "tee -- {w} < /dev/null", "tee a.txt {w} <<< x"),
    *("cp a.txt {w}", "cp -f a.txt {w}", "cp a.txt {d}", "cp -t {d} a.txt", "cp --target-directory={d} a.txt"),
    *("cp -r src {n}", "cp -a out {n}", "cp -rT src {d}", "cp --target {d} a.txt", "cp -vt{d} a.txt"),
    *("cp -R . {n}", "cp --parents src/b.txt {d}", "cp -b a.txt {w}", "cp -l a.txt {n}"),
    *("cp -s /mnt/ws/a.txt {n}", "cp -u a.txt {w}", "cp src/* {d}", "cp -aL out/. {n}"),
    *("mv a.txt {w}", "mv -t {d} a.txt", "mv {o} q", "mv src {n}", "mv -f a.txt {w}", "mv -bT a.txt {w}"),
    *("ln -s a.txt {n}", "ln a.txt {n}", "ln -sf a.txt {w}", "ln -t {d} a.txt", "ln -st {d} /mnt/ws/a.txt"),
    *("link a.txt {n}", "touch {w}", "touch -c {o}", "touch -r a.txt {o}", "touch -m {o}", "touch -d now {w}"),
    *("mkdir {n}", "mkdir -p {n}/x/y", "mkdir -m 700 {n}", "mkfifo {n}", "mknod {n} p", "rmdir {d}"),
    *("dd of={w} if=a.txt", "dd if=a.txt of={w} conv=notrunc", "echo x | dd of={w}", "truncate -s 0 {w}"),
    *("truncate --size=1 {w}", "truncate -r a.txt {w}", "install a.txt {w}", "install -D a.txt {n}/x"),
    *("install -d {n}", "install -t {d} a.txt", "install -m 600 a.txt {w}"),
    *("sed -i s/a/b/ {o}", "sed -i.bak s/a/b/ {o}", "sed --in-place s/a/b/ {o}", "sed -ni p {o}"),
    *("sed -n 'w {p}' a.txt", "sed 's/a/b/w {p}' a.txt", "sed -e 1w{p} a.txt", "sed -Ei s/a/b/ {o}"),
    *("sed -n '$!d;w {p}' a.txt", "sed --expression='w {p}' a.txt"),
    *("sort -o {w} a.txt", "sort -o{w} a.txt", "sort --output={w} a.txt", "sort a.txt -o {w}", "sort -uo {w} a.txt"),
    *("shuf -o {w} a.txt", "shuf -e x -o {w}", "uniq a.txt {w}", "split -l1 a.txt {n}", "split a.txt {n}"),
    *("csplit -sf {n} a.txt 1", "csplit -s --prefix={n} a.txt 1", "iconv -o {w} a.txt", "iconv --output={w} a.txt"),
    *("mktemp {n}XXX", "mktemp -p {d} XXXX", "mktemp -d {n}.XXXX", "mktemp --tmpdir={d}", "mktemp -p {d}"),
    *("fallocate -l 1 {w}", "fallocate -l1 {w}", "flock {w} true", "flock -x {w} -c true", "script -qc true {w}"),
    *("script -q -c true {w} < /dev/null", "awk 'BEGIN{{print 1 > \"{p}\"}}'", "awk '{{print > \"{p}\"}}' a.txt"),
    *("awk 'BEGIN{{printf 1 >> \"{p}\"}}'", "awk 'BEGIN{{print 1 | \"tee {p}\"}}'", "mawk 'BEGIN{{print > \"{p}\"}}'"),
    *("find a.txt -fprint {w}", "find a.txt -fls {w}", "find a.txt -fprintf {w} x", "find a.txt -fprint0 {w}"),
    *("tar cf {w} a.txt", "tar -cf{w} a.txt", "tar --create --file={w} a.txt", "tar czf {w} src", "tar -c -f {w} src"),
    *("tar cf src/t a.txt; tar xf src/t -C {d}", "gzip -c a.txt > {w}", "gzip {o}", "gzip -k {o}"),
    *("gzip -k a.txt; gunzip -c a.txt.gz > {w}", "bzip2 {o}", "xz -k {o}", "xxd a.txt {w}", "base64 a.txt > {w}"),
    *("chmod 600 {o}", "chmod +x {o}", "chmod -R 700 {d}", "chmod u+x,g-w {o}", "chmod --reference=a.txt {o}"),
    *("chmod -R go-rwx {d}", "chown 0 {o}", "chgrp 0 {o}", "shred -n1 {o}", "shred -u {o}", "shred -uz {o}"),
    *("patch {o} /dev/null", "ed -s {o} <<< w", "ed -s {o} <<E\nw\nq\nE\n", "perl -i -pe s/a/b/ {o}", "perl -e 'open F,\">{p}\"'"),
    *("busybox touch {w}", "busybox cp a.txt {w}", "busybox sh -c 'echo x > {p}'", "busybox tee {w} < a.txt"),
    *("comm a.txt src/b.txt > {w}", "diff a.txt src/b.txt > {w}", "xargs touch <<< {w}", "echo {w} | xargs touch"),
    *("printf '%s\\0' {w} | xargs -0 touch", "xargs -I% cp a.txt % <<< {w}", "xargs -n1 tee {w} <<< x"),
    *("find {d} -maxdepth 1 -name '*.txt' -exec touch {{}} +", "find {d} -name '*.txt' -exec sh -c '> \"$1\"' _ {{}} \\;"),
    *("find a.txt -exec cp {{}} {w} \\;", "find a.txt -exec tee {w} \\;", "find {d} -maxdepth 1 -type f -execdir touch x \\;"),
    *("find {d} -name '*.txt' -delete", "find {o} -delete", "find {d} -type f -delete", "find {d} -empty -delete"),
    *("history -w {w}", "history -a {w}", "HISTFILE={w}; set -o history; history -s x; history -a"),
    *("export HISTFILE={w}; history -s x; history -w", "fc -s < {o}", "python3 -c x {o}"),
    *("nohup touch {w}", "env touch {w}", "sudo touch {w}", "timeout 2 touch {w}", "setsid -w touch {w}"),
    *("command touch {w}", "exec touch {w}", "builtin echo x > {w}", "time touch {w}", "nice touch {w}"),
    *("cpio -pd {d} <<< a.txt", "zip -q {n}.zip a.txt", "zip {w} a.txt", "logger -f {o}", "date > {w}"),
    *("rename s/a/b/ {o}", "unlink {o}", "cat a.txt src/b.txt >> {w}", "cmp a.txt a.txt > {w}", "od a.txt > {w}"),
    *("[[ x ]] > {w}", "((1)) > {w}", "if :; then :; fi > {w}", "while false; do :; done > {w}", "for i in 1; do echo x; done > {w}"),
    *("case x in x) echo x;; esac > {w}", "f() {{ echo x; }} > {w}; f", "f() {{ echo x; }}; f > {w}", "time -p : > {w}"),
    *("! : > {w}", "a=$(: > {w})", "a=1 > {w}", "echo <(: > {w})", "cat < <(echo x > {w})", "echo x > >(tee {w})"),
    *("coproc {{ echo x > {w}; }}; wait", "(( $(: > {w}) 1 ))", "echo ${{u:-$(: > {w})}}", "[ x ] > {w}", "test x > {w}"),
    *("PS4='$(echo x > {p})'; set -x; :", "trap 'echo x > {p}' EXIT", "mapfile a < <(: > {w})", "read x < {o} > {w}"),
    *("exec 4<> {w}; echo x >&4", "exec 5> {w} && echo y >&5", "echo x > {w} | cat", "echo x |& tee {w}", "echo x > {n} < {o}"),
    *("bash -c 'echo x > {p}'", "sh -c '> {p}'", "bash -c 'echo x > \"$1\"' _ {w}", "sh -c 'echo > $0' {w}", "eval '> {p}'"),
    *("sh <<E\n> {p}\nE\n", "echo '> {p}' | sh", "bash <<< '> {p}'", ". /dev/stdin <<< '> {p}'", "sh -s <<E\n> {p}\nE\n"),
    *("stdbuf -o0 tee {w} < a.txt", "ionice -c3 touch {w}", "curl -o {w} x", "git init {n}", "npm test > {w}"),
    *("cp --backup a.txt {o}", "mv -b a.txt {o}", "ln -sb a.txt {o}", "cp -S.x --backup a.txt {o}", "diff a.txt src/b.txt | patch {o}", "patch -o {w} a.txt /dev/null", "tar xf /dev/null -C {d}"),
    *("awk -v f={w} 'BEGIN{{print > f}}'", "awk '{{print > FILENAME}}' {o}", "sed -s -i p {o} a.txt", "sed -f <(echo 'w {p}') a.txt", "find {d} -maxdepth 1 -fprint {w}", "tee >(cat > {w}) < a.txt", "split -b1 --additional-suffix=.x a.txt {n}"),
    *("csplit -sz -b %d -f {n} a.txt 1", "comm --output-delimiter=x a.txt a.txt > {w}", "b2sum a.txt > {w}", "dd if=/dev/zero bs=1 count=1 of={w}", "cat /dev/null | tee {w} a.txt", "paste a.txt - < a.txt > {w}", "truncate -s+1 {w}", "chmod a-w {o}; > {w}"),
    *("install -b a.txt {o}", "install -vD -t {d} a.txt", "mkdir -p -- {n}/a", "mkdir -pv {n} src/n2", "mv -n a.txt {n}", "mv -nt {d} a.txt package.json", "rsync a.txt {w}", "unzip -d {d} x.zip", "cpio -o < a.txt > {w}", "ar r {n}.a a.txt", "gcc -o {w} a.c"),
    *("printf %s x >{w}", "echo x>{w}", "echo 2>{w}", "echo x 2>{w}x", "ls>{w}", "cat<a.txt>{w}", ">{w}<a.txt cat", ">{w};", "{{ :; }}>{w}", "(:)>{w}", "echo x >\
{w}", "echo x > \
 {w}", "echo x 1>&2 2>{w}", "echo x >&1 >{w}", "echo x 10>{w}", "echo x >{w} >{n}"),
    *("TMPDIR={d} mktemp", "export TMPDIR={d}; mktemp", "TMPDIR={d}; mktemp -t x.XXXX", "SIMPLE_BACKUP_SUFFIX=.x cp -b a.txt {o}", "VERSION_CONTROL=t cp -b a.txt {o}", "POSIXLY_CORRECT=1 cp a.txt {w}", "TAR_OPTIONS=--checkpoint-action=exec=true tar cf {w} a.txt"),
    *("patch <<E\n--- .env\n+++ .env\n@@ -1 +1 @@\n-KEY=secret\n+KEY=x\nE\n", "patch -p1 <<E\n--- a/.git/HEAD\n+++ b/.git/HEAD\n@@ -1 +1 @@\n-ref: refs/heads/main\n+x\nE\n", "patch -d {d} -p0 < /dev/null", "ed -s a.txt <<< 'w {p}'", "ed -s a.txt <<E\nw {p}\nq\nE\n"),
    *("tar cf /tmp/t .env; tar xf /tmp/t", "tar cf /tmp/t .git; tar -xf /tmp/t", "tar cf - .env | tar xf - -C src", "tar c src | (cd {d} && tar x)", "zip -q /tmp/y.zip .env; unzip -oq /tmp/y.zip", "cpio -o <<< .env > /tmp/c; cpio -iu < /tmp/c", "tar cf /tmp/t -C src b.txt; tar xf /tmp/t -C{d}"),
    *("bash -c 'cd \"$1\" && > x' _ {d}", "find {d} -maxdepth 0 -exec sh -c 'cd \"$1\"; > x' _ {{}} \\;", "xargs -I% sh -c 'cd %; > x' <<< {d}", "env -C {d} touch x", "env -C {d} sh -c '> x'", "sudo -D {d} touch x", r"find {d} -maxdepth 1 -type f -execdir sh -c '> y' \;", "(cd {d}; > x)"),
    *("while read a b; do $a $b; done <<< 'touch x'", "for f in {o} {n}; do > $f; done", "for f in {d}/*; do > $f; done", "for f in .e*; do echo x > \"$f\"; done", "for ((i=0;i<2;i++)); do > {n}$i; done", "echo x | while read y; do > {w}; done", "> {n}{{1..2}}", "touch {n}{{a,b}}"),
    *("x={w}; > $x", "x={w}; > \"$x\"", "x=({w} b); > ${{x[0]}}", "set -- {w}; > $1", "f() {{ > $1; }}; f {w}", "f() {{ local t=$1; echo x > $t; }}; f {w}", "x=$(echo {w}); > $x", "read x <<< {w}; > $x", "exec 3>{w} 4>&3; echo x >&4", "{{ echo x >&3; }} 3> {w}"),
    *("npm test | tee {w}", "npm test 2> {w}", "ls > {w}", "git log --output={w}", "git diff > {w}"),
)  # fmt: skip
_REMOVE = (
    *("rm {o}", "rm -f {o}", "rm -r {d}", "rm -rf {d}/*", "rm -rf {d}/.[!.]*", "rm -rfv {d}", "rm --recursive {d}"),
    *("unlink {o}", "rmdir {d}", "find {d} -delete", "find {d} -name '*.txt' -exec rm {{}} +", "rm -rf -- {d}"),
    *("find {d} -type f -exec rm {{}} \\;", "find {d} | xargs rm -rf", "find {d} -print0 | xargs -0 rm -r"),
    *("ls {d} | xargs rm", "rm -rf *", "rm -rf .*", "rm -rf ./*", "rm -rf {d}/..", "rm */*.txt", "rm -rf ?rc"),
    *("rm -rf ${{u}}/{d}", "rm -rf $PWD/{d}", "mv {d} gone", "find . -type f -name '.e*' -delete", "rm -rf \"{d}\"*"),
    *("cd {d} && rm -rf *", "(cd {d} && rm -rf .)", "xargs rm < a.txt", "xargs -a a.txt rm", "xargs -n 1 rm < a.txt"),
    *("shopt -s dotglob; rm -rf *", "shopt -s globstar; rm **/*.txt", "shopt -s nullglob; rm nosuch* {o}", "set -f; rm *"),
    *("bash -O dotglob -c 'rm -rf *'", "shopt -s nocaseglob; rm .ENV*", "rm {{a.txt,.env}}", "rm .{{env,git/config}}"),
    *("for f in *; do rm \"$f\"; done", "for f in .e*; do rm $f; done", "while read f; do rm $f; done < a.txt"),
    *("ls -A | while read f; do rm -rf \"$f\"; done", "rm $(ls)", "rm `cat a.txt`", "rm -r \"$(cat a.txt | tail -1)\""),
    *("GLOBIGNORE=x; rm -rf *", "rm -rf [.]*", "rm -rf [!a]*", "rm .en[[:lower:]]", "rm -rf */", "rm -rf */*"),
)  # fmt: skip
_READ = (
    *("cat {s}", "cat < {s}", "head {s}", "grep KEY {s}", "grep -eKEY {s}", "grep -f {s} a.txt", "rev {s}", "tac {s}"),
    *("grep -r KEY .", "grep -rn KEY", "grep -R KEY . --include=.env", "grep KEY .e*", "grep -h KEY a.txt {s}", "nl {s}"),
    *("tail -1 {s}", "sort {s}", "wc {s}", "od -c {s}", "base64 {s}", "xxd {s}", "strings {s}", "cut -c1 {s}", "fold {s}"),
    *("join {s} a.txt", "paste a.txt {s}", "diff a.txt {s}", "cmp a.txt {s}", "comm a.txt {s}", "iconv {s}", "uniq {s}"),
    *("sed p {s}", "sed -n 1p {s}", "sed 'r {p}' a.txt", "awk 1 {s}", "awk '{{print}}' {s}", "awk 'BEGIN{{getline < \"{p}\"}}'"),
    *("cp {s} q", "cp {s} src/", "mv {s} q", "dd if={s}", "tar cf src/t {s}", "tar cf - . > /dev/null", "tar czf /tmp/t ."),
    *("zip -q src/z {s}", "zip -qr src/z .", "gzip -c {s}", "install {s} q", "tee src/q < {s}", "xargs -a {s}", "xargs < {s}"),
    *("xargs -a{s} echo", "xargs --arg-file={s} echo", "bash {s}", "sh {s}", "sh < {s}", ". {p}", ". ./{p}", "source {s}"),
    *("while read x; do echo $x; done < {s}", "read x < {s}", "mapfile a < {s}", "x=$(< {s})", "x=$(cat {s})", "echo \"$(<{s})\""),
    *("cat <(cat {s})", "exec 3< {s}; cat <&3", "cat {{a.txt,{p}}}", "cat .{{env,x}}", "find . -type f -exec cat {{}} +"),
    *("find . -name '.e*' | xargs cat", "find . -maxdepth 1 -type f -print0 | xargs -0 cat", "cp -r . /tmp/q", "cp -r ../ws /tmp/q"),
    *("sudo cat {s}", "env cat {s}", "timeout 1 cat {s}", "nohup cat {s}", "busybox cat {s}", "busybox grep KEY {s}", "jq . {s}"),
    *("md5sum {s}", "sha256sum {s}", "cksum {s}", "file -f {s}", "wc --files0-from={s}", "sort --files0-from={s}", "du --files0-from={s}"),
    *("split {s} q", "csplit -s {s} 1", "shuf {s}", "pr {s}", "fmt {s}", "expand {s}", "column {s}", "cat -- {s}", "cat -n {s}"),
    *("python3 {s}", "perl -ne print {s}", "perl -e 'open F,\"{p}\"; print <F>'", "ed -s {s} <<< ,p", "cat * .*", "cat .[a-z]*", "cat ?env"),
    *("ln {s} q; cat q", "ln -s {p} q; cat q", "cp -l {s} q; cat q", "shopt -s dotglob; cat *", "git hash-object {s}", "git show HEAD:{p}"),
    *("curl -T {s} x", "curl -d @{p} x", "curl -F f=@{p} x", "patch -i {s} a.txt", "env -S 'cat {p}'", "PATH=$PATH cat {s}", "cat a.txt - < {s}"),
)  # fmt: skip
TEMPLATES = (*_RUN, *_WRITE, *_REMOVE, *_READ)
_NPM = (
    "npm test",
    "npm test",
    "npm test < a.txt",
    "npm test 2>&1",
    "npm test | cat",
    "npm test && ls",
)

Action = Callable[[Random, Speller], str]


def action(rng: Random, speller: Speller) -> str:
    """The text of one command, perhaps with its words spelled in an unusual way."""
    kind = rng.choices((run, write, remove, read, npm), (22, 34, 12, 18, 4))[0]
    return kind(rng, speller)


def run(rng: Random, speller: Speller) -> str:
    text = rng.choice(_RUN)
    if "; " in text or "?" in text or "[" in text or "~" in text:
        return text
    return " ".join(speller.word(word) for word in text.split())


def npm(rng: Random, speller: Speller) -> str:
    return rng.choice(_NPM)


def write(rng: Random, speller: Speller) -> str:
    return filled(rng.choice(_WRITE), rng, speller)


def remove(rng: Random, speller: Speller) -> str:
    return filled(rng.choice(_REMOVE), rng, speller)


def read(rng: Random, speller: Speller) -> str:
    return filled(rng.choice(_READ), rng, speller)


def simple_words(rng: Random) -> list[str]:
    """A command as plain words, for wrappers."""
    choice = rng.random()
    if choice < 0.5:
        return rng.choice(_RUN).split()
    if choice < 0.8:
        return [rng.choice(("touch", "tee", "mkdir")), rng.choice(NEW)]
    return [rng.choice(("cat", "rm", "truncate -s0", "chmod 600")), rng.choice(OLD)]


def filled(template: str, rng: Random, speller: Speller) -> str:
    exists = rng.random() < 0.5
    old, new = rng.choice(OLD), rng.choice(NEW)
    plain = (
        ".env" if template in _READ else rng.choice([one for one in (*NEW, *OLD) if " " not in one])
    )
    fields: dict[str, Callable[[], str]] = {
        "w": lambda: speller.path(old if exists else new, exists=exists),
        "n": lambda: speller.path(new, exists=False),
        "o": lambda: speller.path(old, exists=True),
        "d": lambda: speller.path(rng.choice(FOLDERS), exists=True),
        "s": lambda: speller.path(rng.choice(SECRETS), exists=True),
        "p": lambda: plain,
    }
    used = {name for _, name, _, _ in Formatter().parse(template) if name}
    return template.format(**{name: fields[name]() for name in sorted(used)})
