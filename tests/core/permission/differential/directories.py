"""Statements that change the working directory, or only seem to."""

from __future__ import annotations

from random import Random

_INTO = ("src", "out", ".git", ".git/hooks", "nosuch", "..", "../outside", ".", "src/deep", ".github",
         "-", "~", "/mnt/ws", "src/..", "out/..", "out/src", "/", "src/deep/..", "./src", "tools")  # fmt: skip
_CHANGES = (
    *("cd {d}", "cd {d}", "cd {d}", "cd -- {d}", "cd -P {d}", "cd -L {d}", 'cd "{d}"', "cd ./{d}", "cd $PWD/{d}"),
    *("true || cd {d}", "false || cd {d}", "true && cd {d}", "false && cd {d}", "! cd {d}", "cd {d} || true"),
    *("(cd {d})", "{{ cd {d}; }}", ": | cd {d}", "cd {d} | cat", "cd {d} | :", "echo | {{ cd {d}; }}", "cd {d} & wait"),
    *("coproc cd {d}", "x=$(cd {d})", "echo $(cd {d})", ": <(cd {d})", "eval cd {d}", "eval 'cd {d}'", "command cd {d}"),
    *("builtin cd {d}", "pushd {d}", "pushd -n {d}", "pushd {d}; popd", "pushd {d}; pushd", "pushd {d}; pushd +1"),
    *("pushd {d}; popd -n", "pushd {d}; pushd src; popd +1", "pushd {d}; dirs -c; popd", "pushd {d}; cd ~1", "pushd {d}; cd -"),
    *("CDPATH=.. cd {d}", "CDPATH=.git cd hooks", "CDPATH=..; cd {d}", "CDPATH=../outside:. cd src", "export CDPATH=..; cd outside"),
    *("g={d}; shopt -s cdable_vars; cd g", "shopt -s autocd; {d}", "trap 'cd {d}' DEBUG; :", "trap 'cd {d}' ERR; false"),
    *("trap 'cd {d}' USR1; kill -USR1 $$", "f() {{ cd {d}; }}; f", "f() (cd {d}); f", "f() {{ cd {d}; }}", "f() {{ cd \"$1\"; }}; f {d}"),
    *("if cd {d}; then :; fi", "if false; then cd {d}; fi", "if true; then cd {d}; else cd src; fi", "while cd {d}; do break; done"),
    *("until cd {d}; do break; done", "for i in {d}; do cd $i; done", "for i in; do cd {d}; done", "case x in x) cd {d};; esac"),
    *("case x in y) cd {d};; esac", "case x in x) ;& y) cd {d};; esac", "case x in x) ;;& *) cd {d};; esac", "env -C {d} true"),
    *("sh -c 'cd {d}'", "env cd {d}", "find a.txt -exec cd {d} \\;", "xargs cd <<< {d}", "echo cd {d} > src/s; . src/s", "time cd {d}"),
    *("echo cd {d} > src/s; . ./src/s", "echo cd {d} | sh", ". /dev/stdin <<< 'cd {d}'", "exec 3>&1; cd {d}", "cd {d} > /dev/null"),
    *("cd {d} 2> nosuch/x", "cd {d} < nosuch", "d={d}; cd $d", 'd={d}; cd "$d"', "cd ${{u:-{d}}}", "cd $(echo {d})", "cd `echo {d}`"),
    *("cd {d} nosuch", "cd {d}{{,}}", "cd {d}/", "cd {d}//", "cd {d}/.", "set -e; cd {d}", "set -P; cd {d}", "set -o physical; cd {d}"),
    *("cd src; cd {d}", "cd src && cd {d}", "cd nosuch; cd {d}", "cd nosuch && cd {d}", "cd src || cd {d}", "cd {d}; cd -", "cd {d}; cd"),
    *("cd {d}; cd ..", "cd {d} && cd .. && cd ..", "cd out; cd ..", "cd -P out; cd ..", "cd; cd ws", "cd {d}; cd $OLDPWD", "OLDPWD=.. ; cd -"),
    *("HOME=.. ; cd", "HOME=../outside cd", "cd ''", "cd \"\"", "cd {d} && false || true", "alias c=cd\nshopt -s expand_aliases\nc {d}"),
    *("cd() {{ :; }}; cd {d}", "cd() {{ builtin cd ..; }}; cd {d}", "pwd -P; cd {d}", "unset -f cd; cd {d}", "ln -s .. up; cd up", "mkdir -p m/n; cd m/n"),
    *("ln -s ../outside lk; cd lk", "ln -s .git g; cd g/hooks", "cp -a out lk; cd lk", "mkdir src/n && cd src/n", "mv src s2; cd src", "rmdir tools; cd tools"),
    *("select i in 1; do cd {d}; break; done <<< 1", "for ((i=0;i<1;i++)); do cd {d}; done", "[[ x ]] && cd {d}", "(( 0 )) || cd {d}", "(( 1 )) || cd {d}"),
    *("test -d {d} && cd {d}", "[ -d nosuch ] && cd {d}", "read d <<< {d}; cd $d", "shopt -s lastpipe; : | cd {d}", "set +m; shopt -s lastpipe; echo | cd {d}"),
    *("return; cd {d}", "exit & cd {d}", "break; cd {d}", "while :; do cd {d}; break; done", "while true; do break; cd {d}; done", "false; cd {d}"),
    *("f() {{ local PWD; cd {d}; }}; f", "readonly PWD; cd {d}", "PWD=/x cd {d}", "x=$PWD; cd {d}; cd $x", "cd {d}; cd $OLDPWD/{d}", "x=$(cd {d} && pwd); cd $x", "cd $(pwd)/{d}"),
    *("unset PWD; cd {d}", "PWD=/; cd {d}", "cd -e {d}", "cd -@ {d}", "cd -LP {d}", "cd +1", "cd src; pushd {d} > /dev/null; popd", "exec cd {d}"),
)  # fmt: skip
# Relative paths that mean different files from different directories.
_WRITES = (
    *("> ../z", "> ../z", "> config", "> x", "echo x > o.txt", "touch ../z", "touch hooks/x", "rm -rf ../outside"),
    *("rm -r ../src", "> ../../z", "mkdir ../n", "cp /mnt/ws/a.txt ..", "> ../.env", "cat ../.env", "cat .env"),
    *("npm test", "npm test", "rm -rf *", "> ../o.txt", "tee ../z < /dev/null", "> ../outside/z", "mv b.txt ../z", "> z"),
    *("ln -s x ../y", "touch x", "sed -i s/a/b/ config", "> ./pre-commit", "> $PWD/../z", "> $OLDPWD/z", "> ~-/z", "> $(pwd)/../z",
      "> $PWD/config", "touch `pwd`/hooks/x", "x=$PWD; cd src; > $x/../z", "> \"$(cd .. && pwd)\"/z", "find .. -name z -o -fprint ../z"),
)  # fmt: skip
JOINS = ("; ", "; ", " && ", " && ", " || ", "\n", " | ", " & ")


def walk(rng: Random) -> str:
    """A few changes of directory, then a statement that depends on the result."""
    steps = [change(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    line = steps[0]
    for step in [*steps[1:], rng.choice(_WRITES)]:
        join = rng.choice(JOINS)
        line += ("\n" if "\n" in line.rpartition(";")[2] and join != "\n" else join) + step
    return line


def change(rng: Random) -> str:
    return rng.choice(_CHANGES).format(d=rng.choice(_INTO))


def each(rng: Random) -> list[str]:
    """Every change once, with a statement that depends on it."""
    return [
        f"{change.format(d=rng.choice(('src', 'out', '.git', '..')))}{join}{write}"
        for change in _CHANGES
        for join, write in ((" && ", "> ../z"), ("; ", "> config"))
    ]
