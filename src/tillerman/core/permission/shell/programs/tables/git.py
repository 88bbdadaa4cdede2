"""Program table: git commands, which of them only read, what they write, and what runs programs.

What a repository's own config can make git run (pagers, filters, external diffs, file system
monitors) is not included: only what the arguments of a command request.
"""

from __future__ import annotations

from msgspec.structs import replace

from tillerman.core.permission.shell.programs import git_arguments as arguments
from tillerman.core.permission.shell.programs.row import Row

_TOP = (
    "-C=dir -c=config --config-env=code --exec-path?=code --git-dir=code --work-tree=code "
    "--namespace=text --super-prefix=text --attr-source=text --list-cmds=text -p|--paginate:runs "
    "-P|--no-pager --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
    "--icase-pathspecs --no-replace-objects --no-lazy-fetch --no-advice --bare:doubt --html-path "
    "--man-path --info-path -v|--version:info -h"
)
_DIFF = (
    "-sabwRWzDmt -p|-u|--patch:patch -c:patch --no-patch -U|--unified=text:patch --output=write "
    "-l=text -M?=text -C?=text -B?=text -X?=text --output-indicator-new=text "
    "--output-indicator-old=text --output-indicator-context=text --raw --patch-with-raw:patch "
    "--patch-with-stat:patch --indent-heuristic --no-indent-heuristic --minimal --patience "
    "--histogram --anchored=text --diff-algorithm=text --stat?=text --compact-summary --numstat "
    "--shortstat --dirstat?=text --cumulative --dirstat-by-file?=text --summary --name-only "
    "--name-status --submodule?=text --color?=text --no-color --color-moved?=text "
    "--no-color-moved --color-moved-ws=text --word-diff?=text:patch --word-diff-regex=text:patch "
    "--color-words?=text:patch --no-renames --rename-empty --check --ws-error-highlight=text "
    "--full-index --binary --abbrev?=text --no-abbrev --break-rewrites?=text --find-renames?=text "
    "--find-copies?=text --find-copies-harder --irreversible-delete -S=text -G=text "
    "--find-object=text --pickaxe-all --pickaxe-regex -O=read --skip-to=text --rotate-to=text "
    "--relative?=text --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change "
    "--ignore-all-space --ignore-blank-lines -I|--ignore-matching-lines=text "
    "--inter-hunk-context=text --function-context --exit-code --quiet --ext-diff:helper "
    "--no-ext-diff --textconv:runs --no-textconv --ignore-submodules?=text --src-prefix=text "
    "--dst-prefix=text --no-prefix --default-prefix --line-prefix=text --ita-invisible-in-index "
    "--diff-filter=text --cc:patch --combined-all-paths --dd:patch --diff-merges=text "
    "--no-diff-merges --remerge-diff:patch --staged --cached --merge-base --no-index:untracked -#"
)
_LOG = (
    "-igEFPrq --graph --oneline --decorate?=text --no-decorate --decorate-refs=text "
    "--decorate-refs-exclude=text --source --follow --all --branches?=text --tags?=text "
    "--remotes?=text --glob=text --exclude=text --reflog --single-worktree --alternate-refs "
    "--ignore-missing --bisect --stdin --cherry-mark --cherry-pick --left-only --right-only "
    "--cherry -n|--max-count=text --skip=text --since=text --after=text --until=text "
    "--before=text --since-as-filter=text --author=text --committer=text --grep=text "
    "--grep-reflog=text --all-match --invert-grep --regexp-ignore-case --basic-regexp "
    "--extended-regexp --fixed-strings --perl-regexp --remove-empty --merges --no-merges "
    "--min-parents=text --max-parents=text --no-min-parents --no-max-parents --first-parent "
    "--exclude-first-parent-only --not --simplify-by-decoration --show-pulls --full-history "
    "--dense --sparse --simplify-merges --ancestry-path?=text --date-order --author-date-order "
    "--topo-order --reverse --no-walk?=text --do-walk --pretty?=format --format=format "
    "--abbrev-commit --no-abbrev-commit --encoding=text --expand-tabs?=text --no-expand-tabs "
    "--notes?=text --no-notes --show-notes?=text --show-signature:runs --relative-date "
    "--date=text --parents --children --left-right --walk-reflogs --log-size "
    "--show-linear-break?=text --boundary --clear-decorations --mailmap --no-mailmap "
    "--use-mailmap --full-diff --tree -L=text:patch"
)


_UPLOAD = "--upload-pack=program -o=text --depth=text -j|--jobs=text"
_MERGE = (
    "-nqve -S?=text -s|--strategy=text -X|--strategy-option=text -m=text -F=read --ff --no-ff "
    "--ff-only --squash --no-commit --commit --no-edit --edit --abort --continue --skip --quit "
    "--quiet --verbose --stat --no-stat --no-verify --signoff --autostash "
    "--allow-unrelated-histories"
)

_COMMANDS = (
    Row("status", "reads", "rev*",
        "-sbzv --short --branch --show-stash --porcelain?=text --long --verbose "
        "-u|--untracked-files?=text --ignore-submodules?=text --ignored?=text --column?=text "
        "--no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames?=text",
        tracked=True, samples=("git status", "git status -sb --porcelain=v1", "git -C . status")),
    Row("log|whatchanged", "reads", "rev*", f"{_LOG} {_DIFF}", tracked=True, refine=arguments.shows,
        samples=("git log --oneline -3", "git log -p -1", "git --no-pager log --stat -- a.txt")),
    Row("diff", "reads", "rev*", _DIFF, tracked=True, refine=arguments.diff,
        samples=("git diff", "git diff --stat HEAD", "git diff HEAD -- a.txt")),
    Row("show", "reads", "rev*", f"{_LOG} {_DIFF}", tracked=True, refine=arguments.show,
        samples=("git show HEAD", "git show HEAD:a.txt", "git show --stat --format=%h")),
    Row("diff-tree|diff-index|diff-files|range-diff", "reads", "rev*",
        f"{_LOG} {_DIFF} --root -v -r --no-commit-id --creation-factor=text", tracked=True,
        refine=arguments.diff, samples=("git diff-tree --name-only -r HEAD",)),
    Row("shortlog", "reads", "rev*",
        "-snecw --numbered --summary --email --committer --group=text --format=format --since=text "
        "--until=text --after=text --before=text --author=text --no-merges --merges --all "
        "--first-parent --branches --tags", tracked=True, samples=("git shortlog -sn HEAD",)),
    Row("rev-list|name-rev|merge-base|cherry", "reads", "rev*",
        f"-ecw {_LOG} --count --objects --octopus --independent --is-ancestor --fork-point --all "
        "--name-only -a --no-undefined --always", tracked=True,
        samples=("git rev-list --count HEAD",)),
    Row("rev-parse|describe|var|check-ref-format", "reads", "rev*",
        "-q --abbrev-ref?=text --short?=text --show-toplevel --show-prefix --show-cdup --git-dir "
        "--absolute-git-dir --git-common-dir --is-inside-work-tree --is-inside-git-dir "
        "--is-bare-repository --is-shallow-repository --verify --quiet --symbolic "
        "--symbolic-full-name --all --branches?=text --tags --always --long --dirty?=text "
        "--abbrev?=text --match=text --exclude=text --exact-match --first-parent --contains "
        "--candidates=text --git-path=text --show-superproject-working-tree --not --flags "
        "--no-flags --revs-only --no-revs --local-env-vars --show-object-format?=text -l",
        tracked=True,
        samples=("git rev-parse HEAD", "git rev-parse --abbrev-ref @", "git describe --always")),
    Row("blame|annotate", "reads", "rev*",
        "-clftsenwpMCkb -L=text -S=read --date=text --since=text --porcelain --line-porcelain "
        "--incremental --show-name --show-number --show-email --contents=read --root "
        "--ignore-rev=text --ignore-revs-file=read --color-lines --color-by-age --abbrev=text "
        "--reverse --first-parent --progress --no-progress", tracked=True,
        samples=("git blame a.txt", "git blame -L 1,2 -- a.txt")),
    Row("ls-files", "reads", "rev*",
        "-cdmoisukztvf -x|--exclude=text -X|--exclude-from=read --exclude-standard "
        "--exclude-per-directory=text --cached --deleted --modified --others --ignored --stage "
        "--directory --no-empty-directory --unmerged --killed --error-unmatch --with-tree=text "
        "--full-name --recurse-submodules --abbrev?=text --eol --deduplicate --format=format",
        tracked=True, samples=("git ls-files", "git ls-files -o --exclude-standard")),
    Row("ls-tree", "reads", "rev*",
        "-drtlz --long --name-only --name-status --object-only --full-name --full-tree "
        "--abbrev?=text --format=format", tracked=True, samples=("git ls-tree -r HEAD",)),
    Row("cat-file", "reads", "rev*",
        "-tspe --filters:runs --textconv:runs --path=text --batch?=text --batch-check?=text "
        "--batch-command?=text --batch-all-objects --buffer --unordered --follow-symlinks "
        "--allow-unknown-type", tracked=True, refine=arguments.cat_file,
        samples=("git cat-file -p HEAD", "git cat-file -t HEAD:a.txt")),
    Row("grep", "reads", "text rev*",
        "-aIirvwhHEGFPnlLzocpWq --cached -f=read:given -e=text:given --and --or --not "
        "--all-match -O|--open-files-in-pager?=program --no-index:untracked "
        "--untracked:untracked --no-exclude-standard --recurse-submodules --text --ignore-case "
        "--invert-match --word-regexp -A|--after-context=text -B|--before-context=text "
        "-C|--context=text --max-depth=text --recursive --no-recursive --full-name "
        "--extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column "
        "--files-with-matches --name-only --files-without-match --null --only-matching --count "
        "--color?=text --no-color --break --heading --show-function --function-context "
        "-m|--max-count=text --threads=text --quiet "
        "--textconv:runs -#", tracked=True, refine=arguments.grep,
        samples=("git grep -n x", "git grep -e x -- src")),
    Row("reflog|reflog show|stash "
        "list|stash show", "reads", "rev*", f"{_LOG} {_DIFF}", tracked=True,
        refine=arguments.shows, samples=("git reflog", "git stash list", "git stash show -p")),
    Row("reflog expire|reflog delete|symbolic-ref", "runs"),
    Row("branch", "reads", "",
        "-ravqi -D|-d|-M|-m|-c|-C|-f|--delete|--move|--copy|--force:changes --list:lists "
        "-l:lists --all --remotes --verbose --show-current --contains?=text:lists "
        "--no-contains?=text:lists --merged?=text:lists --no-merged?=text:lists "
        "--points-at=text:lists --sort=format --format=format --column?=text --no-column "
        "--color?=text --no-color --ignore-case --abbrev?=text --no-abbrev "
        "-u|--set-upstream-to=text:changes --unset-upstream:changes -t|--track?=text:changes "
        "--no-track:changes --edit-description:changes", refine=arguments.lists,
        samples=("git branch", "git branch -a", "git branch --list 'm*'")),
    Row("tag", "reads", "",
        "-i -l|--list:lists -n?=text:lists --contains?=text:lists --no-contains?=text:lists "
        "--merged?=text:lists --no-merged?=text:lists --points-at=text:lists --sort=format "
        "--format=format --column?=text --no-column --color?=text -a|-s|-f|-d|-v|--annotate|--sign"
        "|--force|--delete|--verify:changes -m=text:changes "
        "-F=read:changes -u=text:changes", refine=arguments.lists,
        samples=("git tag", "git tag -l 'v*'", "git tag -n")),
    Row("remote", "reads", "", "-v|--verbose", refine=arguments.lists,
        samples=("git remote", "git remote -v")),
    Row("remote get-url", "reads", "", "--push --all", samples=("git remote get-url origin",)),
    Row("remote add|remote set-url|remote remove|remote rm|remote rename|remote set-head"
        "|remote set-branches|remote update|remote prune|remote show", "runs", "",
        refine=arguments.remote_helper),
    Row("config", "reads", "",
        "-z --get:gets --get-all:gets --get-regexp:gets --get-urlmatch:gets -l|--list:gets "
        "--get-color:gets --get-colorbool:gets --show-origin --show-scope --name-only --local "
        "--worktree --global:global --system:system -f|--file=read --blob=text --type=text "
        "--bool --int --path --null --includes --no-includes --default=text --add:changes "
        "--replace-all:changes --unset:changes --unset-all:changes --rename-section:changes "
        "--remove-section:changes -e|--edit:changes,runs --fixed-value "
        "--all --regexp", refine=arguments.config,
        samples=("git config --get user.name", "git config -l", "git config user.name")),
    Row("count-objects|check-ignore|check-attr|for-each-ref|show-ref|ls-remote --get-url|version"
        "|help -a", "reads", "",
        "-vqnad --verbose --stdin --no-index --non-matching --format=format --sort=format "
        "--points-at=text --merged?=text --contains?=text --count=text --heads --tags "
        "--hash?=text --verify --human-readable --exclude=text -H --head --dereference",
        samples=("git count-objects -v", "git for-each-ref", "git show-ref", "git version")),
    # These change only the index or a named file: no hook runs.
    Row("add|stage", "writes", "read*",
        "-vNk -n|--dry-run:dry -u|--update:dry -f|--force:forced -A|--all:all "
        "-i|-p|-e|--interactive|--patch|--edit:runs --verbose --no-all --intent-to-add "
        "--refresh --ignore-errors --ignore-missing "
        "--renormalize --sparse --chmod=text --pathspec-from-file=list --pathspec-file-nul",
        refine=arguments.add),
    Row("mv", "writes", "remove/* write/", "-fknv --force --dry-run --verbose",
        refine=arguments.mv),
    Row("rm", "writes", "remove/*",
        "-nqfr --cached --force --dry-run --ignore-unmatch --quiet --sparse "
        "--pathspec-from-file=list"),
    Row("restore", "runs", "",
        "-SWqm -s|--source=text -p|--patch --staged --worktree --ours --theirs --quiet --progress "
        "--overlay --no-overlay --pathspec-from-file=list --ignore-unmerged --recurse-submodules",
        tracked=True, refine=arguments.pathspecs),
    Row("switch", "runs", "",
        "-qftdmC -c|--create=text --orphan=text --detach --force --track?=text --no-track --guess "
        "--no-guess --merge --conflict=text --quiet --discard-changes --ignore-other-worktrees"),
    Row("checkout", "runs", "",
        "-qftldmp -b|-B|-c|-C=text --orphan=text --detach --force --track?=text --no-track "
        "--guess --no-guess --ours --theirs --merge --conflict=text --patch --quiet --progress "
        "--pathspec-from-file=list --overlay --no-overlay --create=text --discard-changes "
        "--recurse-submodules --ignore-other-worktrees", tracked=True, refine=arguments.pathspecs),
    Row("clean", "runs", "remove/*",
        "-qfdi -n|--dry-run:dry -x|-X:ignored -e|--exclude=text --force --quiet --interactive",
        refine=arguments.clean),
    Row("checkout-index", "runs", "write*",
        "-fnquz -a|--all:all --prefix=write/ --stage=text --temp --stdin:all --index --force "
        "--no-create --quiet", tracked=True, refine=arguments.checkout_index),
    Row("apply|am", "runs", "read*",
        "-3RzvqNCs -p=text --check --stat --numstat --summary --index --cached --reverse "
        "--reject --directory=write/ --exclude=text --include=text --whitespace=text "
        "--unsafe-paths:doubt --3way --intent-to-add --recount --build-fake-ancestor=write "
        "--verbose --quiet --continue --abort --skip --signoff --keep-cr",
        refine=arguments.patched_files),
    Row("commit", "runs", "read*",
        "-avqesnoz -S?=text -m|--message=text -F|--file=read -t|--template=read "
        "-c|-C|--reuse-message=text --reedit-message=text --fixup=text --squash=text "
        "--author=text --date=text --cleanup=text --trailer=text --all --amend --no-edit --edit "
        "--no-verify --verify --allow-empty --only --include --quiet --verbose --dry-run "
        "--signoff --no-gpg-sign --gpg-sign?=text --reset-author --allow-empty-message "
        "-p|--patch --interactive --status --no-status -u?=text --short --porcelain "
        "--pathspec-from-file=list"),
    Row("stash|stash push|stash pop|stash apply|stash drop|stash save|stash branch|stash create"
        "|stash store|stash clear", "runs", "mention*",
        "-kpqS -m|--message=text -u|--include-untracked:new -a|--all:ignored --keep-index --patch "
        "--staged --quiet --index --no-keep-index --no-include-untracked", refine=arguments.stash),
    Row("reset", "runs", "",
        "-qpN --soft --mixed --hard --merge --keep --quiet --patch --pathspec-from-file=list"),
    Row("merge|pull|cherry-pick|revert", "runs", "",
        f"{_MERGE} --upload-pack=program --rebase?=text --no-rebase -rx --all --prune --tags "
        "--depth=text --gpg-sign?=text --mainline=text --set-upstream",
        refine=arguments.remote_helper),
    Row("rebase", "runs", "",
        f"-ipfkr {_MERGE} -x|--exec=shell:doubt --onto=text --interactive --root --keep-base "
        "--autosquash --no-autosquash --update-refs --rebase-merges?=text --force-rebase "
        "--fork-point --no-fork-point --apply --merge "
        "-C=text --whitespace=text --gpg-sign?=text"),
    Row("fetch|ls-remote", "runs", "",
        f"-apftunkvq46l {_UPLOAD} --exec=program --all --append --atomic --prune --prune-tags "
        "--tags --no-tags --force --dry-run --multiple --unshallow --quiet --verbose --heads "
        "--refs --symref --sort=format --get-url --recurse-submodules?=text --shallow-since=text "
        "--filter=text --set-upstream --update-head-ok --progress --server-option=text "
        "--exit-code",
        refine=arguments.remote_helper),
    Row("push", "runs", "",
        "-nqvfud46 --receive-pack=program --exec=program -o|--push-option=text --all --mirror "
        "--tags --follow-tags --atomic --dry-run --force --force-with-lease?=text "
        "--force-if-includes --delete --prune --set-upstream --thin --no-thin --quiet --verbose "
        "--progress --no-verify --porcelain --repo=text "
        "--signed?=text --recurse-submodules=text", refine=arguments.push),
    Row("send-pack|receive-pack", "runs", "mention*",
        "--receive-pack=program --exec=program --all --mirror --force --stdin", style="posix",
        refine=arguments.push),
    Row("fetch-pack|upload-pack|upload-archive", "runs", "mention*",
        "--upload-pack=program --exec=program"),
    Row("interpret-trailers", "runs", "mention*",
        "--in-place:changes --trim-empty --only-trailers --only-input --unfold --parse "
        "--where=text --if-exists=text --if-missing=text --trailer=text --no-divider",
        when=(("changes", "write*"),)),
    Row("clone", "runs", "text write/",
        "-lnqvs46 -u|--upload-pack=program -c|--config=code --template=code -b|--branch=text "
        f"{_UPLOAD} --origin=text --reference=read --reference-if-able=read "
        "--separate-git-dir=write/ --filter=text --shallow-since=text --shallow-exclude=text "
        "--server-option=text --bundle-uri=text --local --no-checkout --bare --mirror "
        "--dissociate --single-branch --no-single-branch --no-tags --recurse-submodules?=text "
        "--recursive?=text --shallow-submodules --sparse --quiet --verbose --progress --no-local "
        "--no-hardlinks --also-filter-submodules", refine=arguments.clone),
    Row("init", "runs", "write/",
        "-q --template=code --separate-git-dir=write/ -b|--initial-branch=text "
        "--object-format=text --shared?=text --bare --quiet", refine=arguments.init),
    Row("worktree add", "runs", "write/ text",
        "-fdq -b|-B=text --reason=text --detach --checkout --no-checkout --lock --orphan "
        "--guess-remote --track --quiet --force"),
    Row("worktree list", "reads", "", "-vz --porcelain --verbose", samples=("git worktree list",)),
    Row("worktree move|worktree remove", "runs", "remove/ write/", "-f --force"),
    Row("submodule", "runs", "", "", style="posix", refine=arguments.submodule),
    Row("submodule status", "reads", "", "--cached --recursive",
        samples=("git submodule status",)),
    Row("credential|credential-store|credential-cache", "runs", "mention*",
        "--file=write --timeout=text --socket=write"),
    Row("hash-object", "runs", "read*",
        "-w -t=text --stdin --stdin-paths:listed --no-filters --path=text --literally",
        refine=arguments.listed),
    Row("update-index", "runs", "read*",
        "-qzg --add --remove --force-remove --refresh --really-refresh --replace --unmerged "
        "--ignore-missing --stdin:listed --index-info --chmod=text --verbose --again "
        "--assume-unchanged --no-assume-unchanged --skip-worktree --no-skip-worktree",
        refine=arguments.listed),
    Row("maintenance", "runs", "", "", style="posix", refine=arguments.maintenance),
    Row("pack-objects", "runs", "write", "-q --all --stdout --revs --thin --local --incremental "
        "--non-empty --unpacked --reflog --window=text --depth=text --threads=text"),
    Row("index-pack", "runs", "read*", "-o=write -v --stdin --keep?=text --rev-index --verify"),
    Row("fast-import", "runs", "mention*",
        "--export-marks=write --import-marks=read --export-pack-edges=write --date-format=text "
        "--force --quiet --stats --done"),
    Row("read-tree", "runs", "text*", "-muvin --index-output=write --prefix=text --reset"),
    Row("mailinfo", "runs", "write write", "-kbumn --encoding=text --scissors --no-scissors"),
    Row("mailsplit", "runs", "read*", "-b -o=write/ -f=text -d=text --keep-cr --mboxrd"),
    Row("merge-file", "runs", "write read*", "-L=text -p|--stdout -q --diff3 --zdiff3 --ours "
        "--theirs --union"),
    Row("bugreport|diagnose", "runs", "mention*",
        "-o|--output-directory=write/ -s|--suffix=text --mode=text --diagnose?=text"),
    Row("bundle create", "runs", "write", "-q --quiet --progress --all --version=text"),
    Row("format-patch", "runs", "",
        f"{_DIFF} -o|--output-directory=write/ --stdout -nNk -v=text --cover-letter "
        "--subject-prefix=text --signoff --thread?=text --attach?=text --in-reply-to=text "
        "--start-number=text --suffix=text --base=text --zero-commit --numbered --no-numbered"),
    Row("archive", "runs", "text rev*",
        "-lv -o|--output=write --remote=program --exec=program --format=text --prefix=text "
        "--worktree-attributes --add-file=read --verbose --list -#", tracked=True,
        default="rev"),
    Row("fast-export", "runs", "", "-o=write --output=write --all --export-marks=write"),
    Row("bisect", "runs", "", "", style="posix", refine=arguments.bisect),
    Row("filter-branch|difftool|mergetool", "runs", "", "-xdtmgy", style="posix",
        refine=arguments.filters),
    Row("send-email|instaweb|daemon|shell|remote-ext|cvsserver"
        "|svn|p4|web--browse|imap-send", "runs",
        "mention*", "", refine=arguments.filters),
)  # fmt: skip
ROWS = (
    Row("git", "none", "", _TOP, style="posix"),
    *(
        replace(row, names="|".join(f"git {name}" for name in row.names.split("|")))
        for row in _COMMANDS
    ),
)
