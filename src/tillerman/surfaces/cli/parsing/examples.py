"""Examples of commands, shown at the end of their help; tests run each."""

from __future__ import annotations

EXAMPLES = {
    "tillerman run": (
        'tillerman run -a claude "Add a test for the parser"',
        'tillerman run -c "Now make it pass" --approve edits',
        'git diff | tillerman run -a gemini --mode plan "Review this"',
        'tillerman run -a claude,codex --max-cost 2 --timeout 600 "Port the parser"',
        'tillerman run --json --approve readonly "List the open questions"',
    ),
    "tillerman handoff": (
        'tillerman handoff last -a codex "You finish it"',
        "tillerman handoff last -a qwen --approve edits",
    ),
    "tillerman serve": (
        "tillerman serve",
        "tillerman serve --status",
        "tillerman serve --install --dry-run",
        "tillerman serve --stop",
    ),
    "tillerman serve token": (
        "tillerman serve token --scope read --name dashboard",
        "tillerman serve token --list",
    ),
    "tillerman serve link": ("tillerman serve link --scope answer",),
    "tillerman attach": (
        "tillerman attach last",
        "tillerman attach 3f2a91c0de --since 10 --json",
    ),
    "tillerman tui": (
        "tillerman tui -a claude",
        "tillerman tui last",
    ),
    "tillerman acp": (
        "tillerman acp -a claude",
        "tillerman acp -a claude,codex --approve edits",
    ),
    "tillerman sessions": (
        "tillerman sessions list --here",
        "tillerman sessions show last",
        "tillerman sessions search greeting",
        "tillerman sessions export last --format html -o session.html",
    ),
    "tillerman sessions list": (
        "tillerman sessions list --here -n 5",
        "tillerman sessions list -a claude --json",
    ),
    "tillerman sessions follow": (
        "tillerman sessions follow last",
        "tillerman sessions follow last --since 10 --json",
    ),
    "tillerman sessions export": (
        "tillerman sessions export last > session.md",
        "tillerman sessions export last --format html -o session.html",
    ),
    "tillerman requests": (
        "tillerman requests list",
        "tillerman requests watch",
        "tillerman requests remembered",
    ),
    "tillerman requests answer": (
        "tillerman requests answer 3f2a91c0de/r1.3 allow",
        'tillerman requests answer 3f2a91c0de/r1.3 deny --note "use the staging server"',
        "tillerman requests answer 3f2a91c0de/r1.3 always --yes",
    ),
    "tillerman agents": (
        "tillerman agents",
        "tillerman agents claude",
        "tillerman agents --can",
    ),
    "tillerman models": (
        "tillerman models",
        "tillerman models mock --json",
    ),
    "tillerman mcp add": (
        "tillerman mcp add files -a claude -- npx server-files --root .",
        "tillerman mcp add issues -a claude --url https://example.com/mcp",
    ),
    "tillerman mcp serve": (
        "tillerman mcp serve --approve edits",
        "tillerman mcp serve --http 0",
    ),
    "tillerman doctor": (
        "tillerman doctor",
        "tillerman doctor --json",
    ),
    "tillerman hooks": (
        "tillerman hooks install claude",
        "tillerman hooks install --user codex gemini",
        "tillerman hooks status",
        "tillerman hooks remove",
    ),
    "tillerman policy explain": (
        "tillerman policy explain -- Bash 'cd src && npm test'",
        'tillerman policy explain --approve auto -v -- Write \'{"file_path": ".env"}\'',
    ),
    "tillerman policy check": (
        "tillerman policy check",
        "tillerman policy check .tillerman/config.toml",
    ),
    "tillerman protected": (
        "tillerman protected list",
        "tillerman protected list --all --json",
    ),
    "tillerman init": (
        "tillerman init",
        "tillerman init --minimal --json",
    ),
    "tillerman pipeline": (
        'tillerman pipeline run code-review -i task="Add a test for the parser"',
        "tillerman pipeline approve last",
        "tillerman pipeline check",
        "tillerman pipeline graph code-review",
    ),
    "tillerman pipeline check": (
        "tillerman pipeline check",
        "tillerman pipeline check code-review .tillerman/pipelines/simple-task.yaml",
        "tillerman pipeline check --json",
    ),
    "tillerman pipeline graph": (
        "tillerman pipeline graph code-review",
        "tillerman pipeline graph code-review --mermaid > review.mmd",
    ),
    "tillerman config": (
        "tillerman config show",
        "tillerman config get limits.cost",
        "tillerman config set limits.cost 5",
    ),
    "tillerman trust": (
        "tillerman trust --yes",
        "tillerman trust --revoke",
    ),
    "tillerman repo": (
        "tillerman repo status",
        "tillerman repo action",
    ),
    "tillerman cloud": (
        'tillerman cloud launch "Add a README" --create-pr',
        "tillerman cloud list",
        "tillerman cloud watch bc-00000000-0000-0000-0000-000000000001",
        "tillerman cloud import bc-00000000-0000-0000-0000-000000000001 --worktree",
    ),
    "tillerman cloud launch": (
        'tillerman cloud launch "Fix the login test" --watch',
        'tillerman cloud launch "Address the review" --pr https://github.com/acme/app/pull/7',
        'tillerman cloud launch "Port the parser" --repo https://github.com/acme/app --ref main',
    ),
    "tillerman cloud artifacts": (
        "tillerman cloud artifacts ID",
        "tillerman cloud artifacts ID --download artifacts/shot.png -o shot.png",
    ),
    "tillerman cloud listen": ("tillerman cloud listen --port 7346",),
    "tillerman ps": (
        "tillerman ps",
        "tillerman ps --all --json",
    ),
    "tillerman logs": (
        "tillerman logs p3f1c09a2be -n 20",
        "tillerman logs p3f1c09a2be -f",
    ),
    "tillerman completion": (
        "source <(tillerman completion bash)",
        "tillerman completion fish > ~/tillerman.fish",
    ),
}


def epilog(command: str) -> str:
    lines = EXAMPLES.get(command, ())
    return "\n".join(["examples:", *(f"  {line}" for line in lines)]) if lines else ""
