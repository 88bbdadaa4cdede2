"""Program table: package managers, and runners of a project's programs (npm, pip, uv, apt)."""

from __future__ import annotations

import posixpath

from tillerman.core.permission.shell.parsed_script import is_open
from tillerman.core.permission.shell.programs.roles import suffixes
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_NPM = (
    "-dsqgDESOBPfh -v:info --prefix=dir -C=dir -w|--workspace=text --workspaces "
    "--script-shell=code --node-options=code -c|--call=code --userconfig=code --globalconfig=code "
    "--registry=host:runs --cache=write/ --silent --quiet --verbose --loglevel=text --json --long "
    "--parseable --global --omit=text --only=text --include=text --production --save-dev --save "
    "--no-save --save-exact --force --legacy-peer-deps --ignore-scripts --no-audit --no-fund "
    "--if-present --offline --prefer-offline --depth=text --all --access=text --tag=text "
    "--otp=text --pack-destination=write --logs-dir=write --dry-run --link "
    "--package-lock-only --color=text"
)
_PIP = (
    "-hqv -V:info --debug --isolated --require-virtualenv --python=program --quiet --verbose "
    "--log=write --no-input --keyring-provider=text --proxy=host:runs --retries=text "
    "--timeout=text --exists-action=text --trusted-host=text:runs --cert=read --client-cert=read "
    "--cache-dir=write/ --no-cache-dir --disable-pip-version-check --no-color "
    "--no-python-version-warning --use-feature=text --use-deprecated=text"
)
_PIP_LISTS = (
    "-le --local --user --path=read --pre --format=text --not-required --exclude-editable "
    "--include-editable --editable --exclude=text -r|--requirement=read --all -f|--files "
    "-o|--outdated:runs -u|--uptodate:runs -i|--index-url=host:runs --extra-index-url=host:runs "
    "--no-index --find-links=mention:runs"
)
_UV_RUN = (
    "-qvn -p|--python=text -m|--module --with=text --with-requirements=read --with-editable=text "
    "--extra=text --group=text --only-group=text --package=text --project=text --directory=dir "
    "--env-file=code --index=text --index-url=text --script --isolated --active --no-sync --locked "
    "--frozen --no-project --all-extras --dev --no-dev --only-dev --quiet --verbose --offline"
)


_SETTINGS = {
    "npm": (".npmrc",), "pnpm": (".npmrc", ".config/pnpm/rc"), "yarn": (".yarnrc", ".yarnrc.yml"),
    "pip": (".config/pip/pip.conf",),
}  # fmt: skip


def _project_script(draft: InvocationDraft) -> None:
    """`npm run x` runs a script of the project; its arguments are mentions of files."""
    if any(map(is_open, draft.words[1:2])):
        draft.doubt(f"the script that {draft.program} runs is only known at run time")
    draft.mention(draft.words[1:])


def _user_settings(draft: InvocationDraft) -> None:
    """Writes the settings of the user, or of the project."""
    draft.mention(draft.words[1:])
    place = draft.parsed.value("--location")
    for name in _SETTINGS[draft.program.partition(" ")[0]]:
        if place != "project":
            draft.access(f"~/{name}", "write")
        if place not in (None, "user", "global"):
            draft.access(posixpath.basename(name), "write")


def _runner(draft: InvocationDraft) -> None:
    draft.others += suffixes(draft.words)


def _inner(names: str, options: str = "", skip: int = 0) -> Row:
    """A row that runs the command after its options, in an environment of the project."""
    return Row(names, options=options, style="posix", command="whole", skip=skip, refine=_runner)


ROWS = (
    Row("npm", "none", "", _NPM, everywhere=True),
    Row("npm ls|npm list|npm ll|npm la", "reads", samples=("npm ls --depth=0", "npm ls --json")),
    Row("npm config get|npm config list|npm get|npm root|npm prefix|npm bin", "reads",
        samples=("npm config get registry", "npm root")),
    Row("npm config set|npm config delete|npm config edit|npm config fix|npm config rm|npm set"
        "|pnpm config set|pnpm config delete|pnpm set|yarn config set|yarn config unset", "runs",
        "",
        "-L|--location=text --editor=program", refine=_user_settings),
    Row("npm run|npm run-script|npm test|npm t|npm start|npm stop|npm restart", "runs",
        refine=_project_script),
    Row("npm publish|npm pack|pnpm publish|pnpm pack|yarn publish|yarn pack|yarn npm publish",
        "runs", "mention*", default="read/"),
    Row("npm explore", "runs", options="--shell=program", style="posix", command="whole", skip=1,
        refine=_runner),
    Row("npm exec|npm x", "runs", options="-c|--call=shell -p|--package=text -y|--yes --no",
        style="posix", command="whole", refine=_runner),
    Row("pnpm|yarn", "none", "", _NPM + " --cwd=dir --filter=text -F=text -r|--recursive "
        "--shell-mode:doubt",
        everywhere=True),
    Row("pnpm ls|pnpm list|pnpm root|pnpm bin|yarn list|yarn bin", "reads",
        samples=("pnpm list --depth=0", "yarn bin")),
    _inner("pnpm exec|pnpm dlx|yarn "
        "exec|yarn dlx|bunx|pnpx", "-y -p|--package=text "
           "-c|--shell-mode --yes --bun --silent"),
    _inner("npx", "-yq -p|--package=text -c|--call=shell --yes --no --no-install --ignore-existing "
           "--quiet --prefer-offline -n|--node-arg=code --shell=program"),
    Row("pip", "none", "", _PIP, everywhere=True),
    Row("pip list|pip show|pip freeze|pip check", "reads", "", _PIP_LISTS,
        samples=("pip list", "pip show pip", "pip freeze")),
    Row("pip config get|pip config list|pip config debug", "reads", "",
        "--user --global --site --editor=program --verbose", samples=("pip config list",)),
    Row("pip config set|pip config unset|pip config edit", "runs", "",
        "--user --global --site --editor=program", refine=_user_settings),
    Row("pip config", "runs", "mention*", "--user --global --site --editor=program",
        refine=_user_settings),
    Row("pip install|pip download|pip wheel", "runs", "mention*",
        "-U -t|--target=write --prefix=write --root=write --src=write -d|--dest=write "
        "-w|--wheel-dir=write -r|--requirement=read -c|--constraint=read -e|--editable=mention "
        "--upgrade --user --no-deps --pre --force-reinstall --no-build-isolation "
        "-i|--index-url=host --extra-index-url=host --no-index -f|--find-links=mention"),
    Row("uv", "none", "", "-qv -V:info --directory=dir --project=text --offline --no-cache "
        "--quiet --verbose --color=text --no-progress --config-file=code", refine=_runner),
    Row("uv tree|uv pip list|uv pip show|uv pip freeze|uv pip tree", "runs"),
    _inner("uv run|uv tool|uvx", _UV_RUN),
    _inner("poetry run|pipenv run|pdm run|rye run|hatch run|bundle exec|conda run|mamba run|pipx "
           "run|mise exec|mise x|asdf exec|nix-shell|nix develop|nix run|nix shell|rbenv "
           "exec|pyenv exec|bundler exec", "-n|--name=text -p|--prefix=text --run=shell "
           "--command=shell -c=text --no-capture-output -e|--env=text"),
    _inner("rustup run", "--install", skip=1),
    Row("poetry|pipenv|pdm|rye|hatch|bundle|bundler|conda|mamba|pipx|mise|asdf|nix|rbenv|pyenv"
        "|rustup",
        "runs", "mention*", "-V:info -v", style="posix", refine=_runner),
    Row("apt|apt-get|aptitude|dnf|yum|apk|pacman|zypper|brew|dpkg|rpm|port", "runs", "mention*",
        "-o=code --setopt=code -E|--eval=code --pre-invoke=code --post-invoke=code -c=code -y -q "
        "--yes --quiet "
        "--no-install-recommends"),
    Row("gem|composer|luarocks|cpan|cpanm|cabal|stack|opam|mix"
        "|rebar3|lein|sbt|dotnet|nuget", "runs",
        "mention*", "", passes=True),
)  # fmt: skip
