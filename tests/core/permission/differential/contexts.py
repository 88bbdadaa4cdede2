"""Ways to run a command: control flow, substitutions, builtins and wrapper programs."""

from __future__ import annotations

from random import Random

from tests.core.permission.differential import features
from tests.core.permission.differential.spelling import Speller

# {s}: the command itself. {q}: its text as one quoted word.
_AROUND = (
    *("({s})", "{{ {s}\n}}", "{{ {s}; }}", "if true; then {s}; fi", "if {s}; then :; fi", "if false; then :; else {s}; fi"),
    *("if false; then :; elif {s}; then :; fi", "while {s}; do break; done", "until {s}; do break; done"),
    *("while :; do {s}; break; done", "until false; do {s}; break; done", "for i in 1; do {s}; done", "for i in 1 2; do {s}\ndone"),
    *("for ((i=0;i<1;i++)); do {s}; done", "for ((i=0;i<1;i++)) {{ {s}; }}", "set -- 1; for i do {s}; done", "for i in 1\ndo\n{s}\ndone"),
    *("select i in 1; do {s}; break; done <<< 1", "case x in x) {s};; esac", "case x in (x) {s}; esac", "case x in y) ;; *) {s};; esac"),
    *("case x in x) :;& y) {s};; esac", "case x in x) :;;& x) {s};; esac", "case $(echo x) in x) {s}\n;; esac", "case x in x|y) {s};; esac"),
    *("f() {{ {s}; }}; f", "function f {{ {s}; }}; f", "function f() {{ {s}; }}; f", "f() ({s}); f", "f() if true; then {s}; fi; f"),
    *("f () {{ {s}\n}}\nf", "f() {{ {s}; }}; g() {{ f; }}; g", "f() {{ [ $1 = 0 ] && {s} || f 0; }}; f 1", "ls() {{ {s}; }}; ls"),
    *("{s} &", "{s} & wait", "! {s}", "! ! {s}", "time {s}", "time -p {s}", "{s} | cat", "{s} |& cat", "echo | {s}", "true && {s}"),
    *("false || {s}", "true || {s}", "false && {s}", "{s}; true", ":; {s}", "{s} && true || false", "true; {s}", "{s} # comment"),
    *("# comment\n{s}", "echo '#'; {s}", "echo a#b; {s}", "\n\n{s}\n", "\t {s}\t", "\\\n{s}", "true &&\n{s}", "true |\n{s}", "true \\\n; {s}"),
    *("echo $({s})", 'echo "$({s})"', "a=$({s})", "a=$({s}\n)", "a=($({s}))", "a[$({s})1]=x", "local_=$({s})", "export a=$({s})"),
    *(": $({s}) > /dev/null", "echo $(echo $({s}))", "echo ${{u:-$({s})}}", 'echo "${{u:-$({s})}}"', "echo ${{u:=$({s})}}", "echo ${{PWD:+$({s})}}"),
    *("echo ${{PWD#$({s})}}", "echo ${{PWD/$({s})/}}", "echo ${{PWD:$({s})0}}", "echo $(( $({s}) + 1 ))", "(( x = $({s})1 ))", "let x=$({s})1"),
    *("[[ -z $({s}) ]]", "[[ x = x && -z $({s}) ]]", "[ -z \"$({s})\" ]", "cat <({s})", ": <({s})", "echo x > >({s})", "cat < <({s})"),
    *("cat <<E\n$({s})\nE\n", "cat <<-E\n\t$({s})\n\tE\n", "cat <<E; true\n`{s}`\nE\n", "cat <<'E'\n$(x)\nE\n{s}", "cat <<A <<B\nx\nA\n$({s})\nB\n"),
    *("cat <<\\E\n'\nE\n{s}", 'cat <<"E"\n`\nE\n{s}', "cat <<E\n${{u:-$({s})}}\nE\n", "cat <<< $({s})", 'cat <<< "$({s})"', "cat <<E && {s}\nx\nE\n"),
    *("coproc {{ {s}; }}; wait", "coproc {s}; wait", "coproc C {{ {s}; }}; wait", "case $({s}) in *) ;; esac", "for i in $({s}); do :; done"),
    *("echo {{a,$({s})}}", "echo $'a'; {s}", "echo $'\\''; {s}", "echo \"'\"; {s}", "echo '\"'; {s}", "echo \\\"; {s}", "echo \\'; {s}", "echo \\\\; {s}"),
    *("echo ${{u:-'}}'}}; {s}", "echo \"${{u:-'}}\"; {s}", 'echo "${{u:-"}}"}}"; {s}', "echo ${{u:-\\}}}}; {s}", "echo ${{#u}}; {s}", "echo $#; {s}", "echo $$; {s}"),
    *("echo $((1<<2)); {s}", "echo $(( (1) )); {s}", "((1<<2)); {s}", "( (true); {s} )", "((true) ; {s})", "[[ a < b ]]; {s}", "[[ a =~ (a|b) ]]; {s}", "[[ ! -e x ]]; {s}"),
    *("declare -a a=(1 2); {s}", "a=(1 2); {s}", "a=([0]=x [1]=y); {s}", "export b; {s}", "a+=(3); {s}", "declare -A m=([a b]=1); {s}", "readonly r=1; {s}"),
    *("shopt -s extglob\necho !(x); {s}", "shopt -s extglob\n[[ a = @(a|b) ]] && {s}", "set -x; {s}", "set -e; {s}", "set -u; {s}", "set -f; {s}", "set -o posix; {s}"),
    *("set -n; {s}", "set -v; {s}", "shopt -s nullglob; {s}", "shopt -s dotglob; {s}", "shopt -s globstar; {s}", "shopt -s lastpipe; echo | {s}", "umask 077; {s}"),
    *("x=1 y=2; {s}", "x=1; {s}", "unset x; {s}", "exec 3>&1; {s}", "exec 3>&1 4>&2; {s} >&3", "{s} 3>&1 1>&2", "{s} < /dev/null", "{s} > /dev/null 2>&1", "{s} >&2"),
    *("{s} 2>&1 | cat", "{s} <<< x", "< a.txt {s}", "2>&1 {s}", "X=1 {s}", "X=1 Y=$(echo 2) {s}", "PATH=$PATH {s}", "LC_ALL=C {s}", "IFS=x {s}", "BASH_ENV=x {s}"),
    *("IFS=,; {s}", "PATH=/usr/bin:/bin; {s}", "PATH=tools:$PATH; {s}", "export PATH=tools:$PATH; {s}", "PATH=tools {s}", "hash -r; {s}", "ENV=x; {s}"),
    *("V=<(true) {s}", "V=<() {s}", "X=1 V=<(echo {{a..c}}) {s}", "V=>(cat) {s}", "V=$(<a.txt) {s}", "export V=1; {s}", "set -a; V=1; {s}"),
    *("true; true; true; {s}; true", "echo one; {s}; echo two", "ls; {s}", "test -e a.txt && {s}", "[ -e nosuch ] || {s}", "[[ -e a.txt ]] && {s}", "wait; {s}"),
)  # fmt: skip
_TEXT = (  # run its text
    *("eval {q}", "eval eval {q}", "eval -- {q}", "builtin eval {q}", "command eval {q}", "eval 'true;' {q}", "x={q}; eval \"$x\"", "x={q}; eval $x"),
    *("trap {q} EXIT", "trap {q} 0", "trap -- {q} EXIT", "trap {q} DEBUG; :", "trap {q} ERR; false", "trap {q} USR1; kill -USR1 $$", "trap {q} RETURN; f() {{ :; }}; set -T; f"),
    *("(trap {q} EXIT)", "sh -c {q}", "bash -c {q}", "sh -ec {q}", "bash -uc {q}", "dash -c {q}", "/bin/sh -c {q}", "bash -O extglob -c {q}", "bash +O extglob -c {q}"),
    *("bash --norc -c {q}", "bash --posix -c {q}", "bash -o pipefail -c {q}", "sh -c -- {q}", "sh -c {q} x y", "sh -c 'eval \"$1\"' _ {q}", "sh -c '$1' _ {q}", "bash -c \"$(echo {q})\""),
    *("env sh -c {q}", "env -i sh -c {q}", "exec sh -c {q}", "nohup sh -c {q}", "timeout 2 sh -c {q}", "sudo sh -c {q}", "sudo -s {q}", "busybox sh -c {q}", "xargs -0 sh -c <<< {q}"),
    *("setsid -w sh -c {q}", "flock a.txt -c {q}", "flock a.txt sh -c {q}", "script -qc {q} /dev/null", "find a.txt -exec sh -c {q} \\;", "find . -maxdepth 0 -exec bash -c {q} _ {{}} \\;"),
    *("echo {q} | sh", "echo {q} | bash", "printf %s {q} | sh", "printf '%s\\n' {q} | sh -s", "echo {q} | bash -s x", "echo {q} | sh -", "cat <<< {q} | sh", "echo {q} | sudo sh", "echo -n {q} | sh"),
    *("echo {q} | tee src/l | sh", "sh <<< {q}", "bash <<< {q}", "bash -s <<< {q}", "bash /dev/stdin <<< {q}", "sh /dev/fd/0 <<< {q}", "sh /proc/self/fd/0 <<< {q}", "sh /dev/../dev/stdin <<< {q}"),
    *(". /dev/stdin <<< {q}", "source /dev/stdin <<< {q}", ". //dev/stdin <<< {q}", ". /proc/self/fd/0 <<< {q}", "cd /dev; . ./stdin <<< {q}", "echo {q} | . /dev/stdin", ". /dev/fd/3 3<<< {q}"),
    *(". <(echo {q})", "source <(echo {q})", "bash <(echo {q})", "sh <(printf %s {q})", "exec 3<<< {q}; . /dev/fd/3", "exec < <(echo {q}); sh", "exec <<< {q}; sh", "sh < <(echo {q})"),
    *("echo {q} > src/s; sh src/s", "echo {q} > src/s; . src/s", "echo {q} > src/s; . ./src/s", "echo {q} > src/s; bash < src/s", "echo {q} > src/s && chmod +x src/s && ./src/s", "printf %s {q} > src/s; sh ./src/s"),
    *("echo {q} >> src/s; bash ./src/../src/s", "echo {q} > src/s; cat src/s | sh", "echo {q} > src/s; sh $PWD/src/s", "echo {q} | tee src/s; sh src/s", "echo {q} > src/s; cd src; . ./s", "cat > src/s <<< {q}; sh src/s"),
    *("echo {q} > src/s; cp src/s src/t; sh src/t", "echo {q} > src/s; mv src/s src/t; sh src/t", "echo {q} > src/s; ln -s s src/t; sh src/t", "echo {q} > src/s; env sh src/s", "echo {q} > src/s; xargs sh <<< src/s"),
    *("echo {q} > src/s; BASH_ENV=src/s bash -c :", "echo {q} > src/s; ENV=src/s sh -c :", "echo {q} > src/s; sh -c '. ./src/s'", "echo {q} > src/s; bash --rcfile src/s -ic :", "echo {q} > src/s; eval \"$(cat src/s)\""),
    *("echo {q} > src/s; eval \"$(<src/s)\"", "echo {q} > src/s; PATH=src:$PATH; chmod +x src/s; s", "echo {q} > tools/npm; tools/npm test", "echo {q} > src/s; while read -r l; do eval \"$l\"; done < src/s", "dd of=src/s <<< {q}; sh src/s"),
    *("sed w\\ src/s <<< {q}; sh src/s", "read -r x <<< {q}; eval \"$x\"", "printf -v x %s {q}; eval \"$x\"", "mapfile -t x <<< {q}; eval \"${{x[0]}}\"", "x=({q}); eval \"${{x[@]}}\"", "set -- {q}; eval \"$1\"", "set -- {q}; eval \"$@\""),
    *("alias zz={q}\nshopt -s expand_aliases\nzz", "shopt -s expand_aliases\nalias zz={q}\nzz", "alias zz={q}\nzz", "shopt -s expand_aliases; alias zz={q}; eval zz", "alias ls={q}\nshopt -s expand_aliases\nls", "alias e='eval '\nshopt -s expand_aliases\ne {q}"),
    *("PROMPT_COMMAND={q}; :", "PROMPT_COMMAND={q} bash -ic :", "PS1='$('{q}')' bash -ic :", "PS4='$('{q}')'; set -x; :", "PS4='$('{q}')' bash -xc :", "env PS4='$('{q}')' sh -xc :", "PS0='$('{q}')' bash -i <<< :"),
    *("x='a[$('{q}')]'; (( x ))", "x='a[$('{q}')]'; echo $((x))", "test -v 'a[$('{q}')]'", "[[ -v 'a[$('{q}')]' ]]", "let 'a[$('{q}')]=1'", "unset 'a[$('{q}')]'", "read 'a[$('{q}')]' <<< 1", "printf -v 'a[$('{q}')]' x"),
    *("declare 'a[$('{q}')]=1'", "x='a[$('{q}')]'; [[ x -eq 1 ]]", "x='a[$('{q}')]'; echo ${{PWD:x}}", "x='a[$('{q}')]'; echo ${{!x}}", "x='a[$('{q}')]'; declare -n r=x; echo ${{!r}}", "export a='() {{ :; }}; '{q}; bash -c :", "x='$('{q}')'; echo ${{x@P}}"),
    *("mapfile -C {q} -c 1 a < a.txt", "mapfile -tC {q}' #' -c1 a < a.txt", "complete -C {q} x; compgen -C {q} x", "compgen -C {q} x", "compgen -W '$('{q}')' x", "bind -x '\"a\":'{q}", "fc -s {q}", "history -s {q}; fc -s", "history -s {q}; fc -e - -1"),
    *("history -s {q}; set -o history; history -p '!!'", "command_not_found_handle() {{ eval {q}; }}; nosuchprogram", "f() {{ eval {q}; }}; export -f f; bash -c f", "f() {{ eval {q}; }}; trap f EXIT", "BASH_FUNC_ls='() {{ :; }}' sh -c {q}", "enable -n eval; sh -c {q}"),
    *("awk 'BEGIN{{system(ARGV[1])}}' {q}", "perl -e 'system @ARGV' sh -c {q}", "python3 -c {q}", "xargs -I% sh -c % <<< {q}", "xargs -d '\\n' -n1 sh -c <<< {q}", "env -S \"sh -c\" {q}", "ssh h {q}", "sed '1e true' a.txt; sh -c {q}", "git -c alias.x='!'{q} x"),
    *("jobs -x sh -c {q}", "time -p sh -c {q}", "sh -c 'exec \"$@\"' _ sh -c {q}", "bash -c 'eval \"$0\"' {q}", "bash -c '\"$@\"' _ sh -c {q}", "exec -a x sh -c {q}", "exec -c /bin/sh -c {q}", "command -p sh -c {q}", "nice -n1 sh -c {q}", "stdbuf -oL sh -c {q}"),
    *("f() {{ sh -c \"$1\"; }}; f {q}", "f() {{ $@; }}; f eval {q}", "x=eval; $x {q}", "x=sh; $x -c {q}", "e\\val {q}", "'eval' {q}", "$(echo eval) {q}", "${{u:-eval}} {q}", "{{eval,{q}}}", "ev''al {q}", "/bin/bash -c {q}", "bash -lc {q}", "bash -ic {q}"),
    *("BASH_ALIASES[zz]={q}; shopt -s expand_aliases\nzz", "declare -i n='a[$('{q}')]'", "declare -a 'a=($('{q}'))'", "export \"a=$(eval {q})\"", "declare -f f; eval {q}", "local x; eval {q}", "printf '%b' {q} | sh"),
    *("echo -e {q} | bash", "<<< {q} sh", "<<< {q} cat | sh", "cat <<E | sh\n{s}\nE\n", "<<E cat | sh\n{s}\nE\n", "bash <<'E F'\n{s}\nE F\n", "sh <<E\"O\"F\n{s}\nEOF\n", "sh <<\\E\n{s}\nE\n", "sh -s -- x <<E\n{s}\nE\n", "sh <<-E\n\t{s}\n\tE\n"),
    *("(sh <<E\n{s}\nE\n)", "x=$(sh <<E\n{s}\nE\n)", "f() {{ sh <<E\n{s}\nE\n}}; f", "if sh <<E; then :; fi\n{s}\nE\n", "sh <<A; cat <<B\n{s}\nA\nx\nB\n", "cat <<A; sh <<B\nx\nA\n{s}\nB\n", "while read -r l; do eval \"$l\"; done <<'E'\n{s}\nE\n", "sh <<E # comment\n{s}\nE\n"),
    *("echo {q} > src/s; PATH=src; . s", "echo {q} > src/s; PATH=src:$PATH . s", "echo {q} > src/s; cd src; . s", "echo {q} > src/s; cd src; bash s", "echo {q} > src/s; bash -- src/s", "echo {q} > src/s; bash +x src/s a b", "echo {q} > src/s; bash -x -e src/s", "echo {q} > src/s; . $(echo src/s)"),
    *("echo {q} > src/s; sh -c '. \"$0\"' ./src/s", "echo {q} > src/s; find src/s -exec sh {{}} \\;", "echo {q} > src/s; xargs -n1 sh <<< src/s", "echo {q} > src/s; echo src/s | xargs bash", "echo {q} > src/s; sh src/?", "echo {q} > src/s; sh src/*s", "echo {q} > src/s; cat < src/s | bash -s", "echo {q} > src/s; bash <(cat src/s)"),
    *("echo {q} > src/s; exec < src/s; sh", "echo {q} > src/s; exec 3< src/s; sh <&3", "echo {q} > src/s; exec 3< src/s; . /dev/fd/3", "echo {q} > src/s; tar cf src/t src/s; rm src/s; tar xf src/t; sh src/s", "echo {q} > src/s; sed p src/s | sh", "echo {q} > src/s; source ./src/s x y", "echo {q} > src/s; command . ./src/s"),
    *("echo {q} > src/s; trap '. ./src/s' EXIT", "echo {q} > src/s; f() {{ . ./src/s; }}; f", "echo {q} > src/s & wait; sh src/s", "(echo {q} > src/s); sh src/s", "true && echo {q} > src/s; sh src/s", "{{ echo {q}; }} > src/s; sh src/s", "exec 3> src/s; echo {q} >&3; sh src/s", "echo {q} >&2 2> src/s; sh src/s"),
    *("printf '#!/bin/sh\\n%s\\n' {q} > src/s; chmod +x src/s; src/s", "install -m 755 <(echo {q}) src/s; src/s", "mkdir src/d; echo {q} > src/d/s; chmod +x src/d/s; run-parts src/d", "echo {q} > package.json; sh package.json", "echo {q} >> a.txt; sh a.txt", "sed -i '1i '{q} a.txt; sh a.txt", "cp a.txt src/s; echo {q} > src/s; sh src/s"),
    *("split --filter={q} a.txt", "tar cf /tmp/t a.txt --checkpoint=1 --checkpoint-action=exec={q}", "tar cf /tmp/t -I {q} a.txt", "tar cf src/t a.txt; tar xf src/t --to-command={q}", "sort --compress-program={q} a.txt", "sed 1e{q} a.txt", "sed 's/a/b/e' <<< {q}", "sed \"1e true\" a.txt; eval {q}", "awk '{{print | \"sh\"}}' <<< {q}"),
    *("awk 'BEGIN{{while((\"cat\"|getline l)>0) system(l)}}' <<< {q}", "awk 'BEGIN{{ \"'{q}'\" | getline }}'", "find . -maxdepth 0 -exec sh -c \"$(echo {q})\" \\;", "ed -s a.txt <<< '!'{q}", "perl -e 'exec @ARGV' sh -c {q}", "busybox awk 'BEGIN{{system(ARGV[1])}}' {q}", "echo '!'{q} | ed -s", "printf '%s\\n' '!'{q} q | ed -s a.txt"),
    *("setpriv sh -c {q}", "runuser -c {q}", "su -c {q}", "unshare -r sh -c {q}", "chroot / sh -c {q}", "nsenter sh -c {q}", "capsh -- -c {q}", "/lib64/ld-linux-x86-64.so.2 /bin/sh -c {q}", "choom -n 0 sh -c {q}", "setarch -R sh -c {q}", "uclampset -m 0 sh -c {q}", "exec 3>&1; sh -c {q} >&3"),
    *("$[ $(eval {q}) ]", ": $[ $(eval {q}) ]", ": $(($(eval {q})))", ": $((a[$(eval {q})0]))", ": ${{a[$(eval {q})0]}}", "((a[$(eval {q})0]++))", "[[ x =~ $(eval {q}) ]]", "[[ $(eval {q}) -eq 0 ]]", "case x in $(eval {q})) ;; esac", ": ${{x:$(eval {q})0}}", "a[$(eval {q})0]=1 :", "x=$(eval {q}) :", "x=$(eval {q}) y=1"),
    *("exec > >(eval {q})", "exec 3< <(eval {q}); wait", "tee >(eval {q}) < a.txt", "{{ eval {q}; }} <<E\nx\nE\n", "$((eval {q}); true)", ": $( (eval {q}) )", "( (eval {q}) )", "((eval {q}) )", "read -p \"$(eval {q})\" x < /dev/null", "time ! eval {q}", "! time eval {q}", "if ! eval {q}; then :; fi"),
    *("trap {q} CHLD; true | true; sh -c :", "trap {q} SIGEXIT; exit 3", "trap {q} TERM; kill $$", "trap 'trap '{q}' EXIT' EXIT", "trap - EXIT; trap {q} EXIT; trap -p", "trap {q} INT HUP EXIT", "exit() {{ eval {q}; }}; exit", "return() {{ eval {q}; }}; return", "test() {{ eval {q}; }}; test x", "[() {{ eval {q}; }}; [ x ]", "echo() {{ builtin eval {q}; }}; echo"),
    *("function rm.x {{ eval {q}; }}; rm.x", "a-b() {{ eval {q}; }}; a-b", "f() {{ eval {q}; }}; unset -f f; f", "f() {{ eval \"$1\"; }}; f {q}", "f() {{ local x={q}; g; }}; g() {{ eval \"$x\"; }}; f", "f() {{ g() {{ eval {q}; }}; }}; f; g", "eval 'f() {{ eval {q}; }}'; f", "f() {{ eval {q}; }} 2> /dev/null; f", "f() while eval {q}; do break; done; f"),
    *("BASH_ENV=<(echo {q}) bash -c :", "BASH_ENV=/dev/stdin bash -c : <<< {q}", "BASH_ENV=/dev/fd/3 bash -c : 3<<< {q}", "export BASH_ENV=<(echo {q}); bash -c :", "env BASH_ENV=/dev/stdin bash -c : <<< {q}"),
    *("exec 3<<< {q}; BASH_ENV=/dev/fd/3 bash -c :", "set -a; BASH_ENV=/dev/stdin; bash -c : <<< {q}", "bash --rcfile <(echo {q}) -ic :", "bash --init-file /dev/stdin -ic : <<< {q}", "ENV=/dev/fd/3 sh -ic : 3<<< {q}"),
    *("echo {q} > ~/.bashrc; bash -ic :", "echo {q} > ~/.profile; bash -lc :", "echo {q} > ~/.bash_profile; bash --login -c :", "echo {q} > src/.bashrc; HOME=src bash -ic :", "echo {q} > src/.profile; HOME=/mnt/ws/src bash -lc :"),
    *("echo {q} > src/s; bash /mnt/ws/src/s", "echo {q} > src/s; bash $PWD/src/s", "echo {q} > $PWD/src/s; sh src/s", "cd src; echo {q} > s; cd ..; . /mnt/ws/src/s", "echo {q} > ~/s; sh /mnt/home/s"),
    *("zip -qT --unzip-command {q} /tmp/z a.txt", "zip -qT --unz={q} /tmp/z a.txt", "zip -qT -TT {q} /tmp/z a.txt", "zip -q /tmp/z a.txt -T --unzip-c {q}", "tar cf /tmp/t --use-comp={q} a.txt", "tar cf src/t a.txt; tar xf src/t --to-comm={q}"),
    *("tar cf /tmp/t a.txt --checkpoint=1 --checkpoint-act=exec={q}", "split --filt={q} a.txt", "script -q --comm={q} /dev/null", "flock a.txt --comm {q}", "su --comm={q}", "busybox vi -c ':!'{q} a.txt < /dev/null", "watch -tgn1 {q}"),
    *("x='a[$('{q}')]'; echo {{a[x]}}> /dev/null", "x='a[$('{q}')]'; exec {{a[x]}}> /dev/null", "x='a[$('{q}')]'; : {{a[x]}}< a.txt", "x='a[$('{q}')]'; {{ :; }} {{a[x]}}> /dev/null", "x='a[$('{q}')]'; mapfile -O x b < a.txt"),
    *("alias pwd='echo '{q}\nshopt -s expand_aliases\neval \"$(pwd)\"", "alias echo='printf %s '{q}' #'\nshopt -s expand_aliases\neval \"$(echo :)\"", "pwd() {{ echo {q}; }}; eval \"$(pwd)\"", "MAILPATH='a.txt?$('{q}')'; :", "c={q} awk 'BEGIN{{system(ENVIRON[\"c\"])}}'"),
)  # fmt: skip
WRAPPERS = (  # before the words of a simple command
    *("env", "env --", "env -i PATH=$PATH", "env A=1", "env -u X", "env -uX", "env -C src", "env --chdir=src", "env -", "env -0", "/usr/bin/env", "env A=1 -u B"),
    *("env -S", "env -vS", "env --split-string", "env --unset=X", "env -u X A=b", "env --ignore-signal", "env --default-signal=INT", "env env", "env -iu X PATH=$PATH"),
    *("nohup", "nohup --", "timeout 2", "timeout -k 1 2", "timeout -s KILL 2", "timeout --signal=KILL 2s", "timeout --foreground 2", "timeout -v 2", "timeout --kill-after=1 -- 2", "timeout -p 2"),
    *("nice", "nice -n 5", "nice -5", "nice -n5", "nice --adjustment=5", "nice --5", "ionice", "ionice -c 3", "ionice -c3 -n1", "ionice -tc2", "setsid", "setsid -w", "setsid -fw", "setsid --wait"),
    *("stdbuf -oL", "stdbuf -o L", "stdbuf --output=L", "stdbuf -i0 -o0 -e0", "time", "time -p", "\\time", "flock a.txt", "flock -n a.txt", "flock -w 1 a.txt", "flock -x --timeout 1 a.txt", "flock -E 1 a.txt", "flock -o a.txt"),
    *("taskset 1", "taskset -c 0", "taskset --cpu-list 0", "taskset -a 1", "chrt -o 0", "chrt -b 0", "chrt --other 0", "chrt -i 0", "chrt -vo 0", "prlimit", "prlimit --nofile=64", "prlimit -n64", "prlimit --core=0 --nofile=64:64"),
    *("setarch x86_64", "setarch x86_64 -R", "linux64", "command", "command --", "command -p", "builtin command", "exec", "exec -a x", "exec -c", "exec -l", "exec -cla x", "exec --", "sudo", "sudo -u root", "sudo -n", "sudo --"),
    *("sudo -E", "sudo A=1", "sudo -uroot", "sudo -D src", "sudo -nu root", "sudo -H -u root --", "sudo --user root", "sudo --user=root", "sudo sudo", "sudo env", "sudo nohup", "doas", "doas -u root", "doas -n", "sudo -i", "sudo -s"),
    *("xargs", "xargs -n1", "xargs -n 1", "xargs -r", "xargs -t", "xargs -0", "xargs -d x", "xargs -L1", "xargs -l", "xargs -P2", "xargs -x", "xargs -i", "xargs -e", "xargs -eX", "xargs --max-lines", "xargs --max-lines=1", "xargs --replace"),
    *("xargs --eof", "xargs --eof=X", "xargs -I %", "xargs -I% env", "xargs --max-args=1", "xargs --max-procs 2", "xargs -s 4000", "xargs --no-run-if-empty", "xargs --process-slot-var=X", "xargs -a a.txt", "xargs --arg-file a.txt", "xargs -aa.txt"),
    *("find a.txt -exec", "find . -maxdepth 0 -exec", "find a.txt -name a.txt -exec", "find src -maxdepth 0 -execdir", "find a.txt -ok", "find a.txt -exec env", "find a.txt -exec env -u +", "find a.txt -name -exec -o -exec", "find a.txt -exec true \\; -exec"),
    *("find src -type f -exec", "find -L a.txt -exec", "find a.txt ! -name x -exec", "find a.txt \\( -name x -o -name a.txt \\) -exec", "find -D exec a.txt -exec", "find -O3 a.txt -exec", "find a.txt -newer src -o -exec", "find a.txt -printf x -exec"),
    *("setpriv", "setpriv --nnp", "choom -n 0 --", "unshare -r", "unshare -U", "runuser -u root --", "su -c", "capsh --", "/lib64/ld-linux-x86-64.so.2", "uclampset -m 0", "nice nohup", "env nice -n 1", "sh -c 'command \"$@\"' _", "hash -r;"),
    *("busybox", "busybox env", "busybox nice", "busybox timeout 2", "busybox xargs", "sh -c '\"$@\"' _", "sh -c '$0 \"$@\"'", "sh -c '\"$0\" \"$@\"'", "bash -c 'exec \"$@\"' _", "sh -c 'shift; \"$@\"' _ x", "sh -c '$*' _", "bash -c '${@:1}' _"),
    *("X=1", "X=1 Y=2", "! ", "coproc", "jobs -x", "trap - EXIT;", "set --;", "unset x;", "script -qc", "nsenter", "unshare", "chroot /", "strace", "watch", "parallel", "ssh h", "docker run x", "git bisect run", "make", "npx", "uv run", "start-stop-daemon --start --exec"),
)  # fmt: skip


TEMPLATES = (*_AROUND, *_TEXT, *features.AROUND)


def around(rng: Random, statement: str, speller: Speller) -> str:
    """The statement inside another construct."""
    group = rng.choices((_AROUND, _TEXT, features.AROUND), (44, 36, 20))[0]
    return inside(rng.choice(group), statement, speller)


def inside(template: str, statement: str, speller: Speller) -> str:
    if statement.endswith("\n") and "{s};" in template:
        template = template.replace("{s};", "{s}")
    if "`{s}`" in template:
        statement = statement.replace("\\", "\\\\").replace("`", "\\`")
    quoted = speller.quoted(statement) if "{q}" in template else ""
    return template.format(s=statement, q=quoted)


def backticks(statement: str) -> str:
    inner = statement.replace("\\", "\\\\").replace("`", "\\`")
    return f"echo `{inner}`"


def wrapped(rng: Random, words: list[str], speller: Speller) -> str:
    """A simple command after one or two wrapper programs."""
    text = behind(rng.choice(WRAPPERS), words, rng, speller)
    return text if rng.random() < 0.7 else _behind(rng.choice(WRAPPERS), text, rng, speller)


def behind(wrapper: str, words: list[str], rng: Random, speller: Speller) -> str:
    return _behind(wrapper, " ".join(speller.word(word) for word in words), rng, speller)


def _behind(wrapper: str, text: str, rng: Random, speller: Speller) -> str:
    if wrapper.endswith(("env -S", "-vS", "--split-string", "-qc")):
        return f"{wrapper} {speller.quoted(text)}"
    if wrapper.startswith("find"):
        end = rng.choice((" \\;", " ';'", " {} +", " {} \\;", " \\; -print"))
        return f"{wrapper} {text}{end}"
    if wrapper.startswith(("xargs", "busybox xargs")):
        feed = rng.choice((" < a.txt", " <<< a.txt", " < /dev/null", " <<< ''"))
        return f"echo a.txt | {wrapper} {text}" if rng.random() < 0.5 else f"{wrapper} {text}{feed}"
    return f"{wrapper} {text}"
