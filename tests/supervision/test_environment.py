"""A child gets only the listed variables; the secret ones among them are registered."""

import pytest

from tillerman.core.errors import UsageError
from tillerman.supervision.environment import (
    asked_for,
    child_environment,
    is_credential,
    secrets_of,
)

PARENT = {
    "PATH": "/usr/bin",
    "HOME": "/home/u",
    "LC_ALL": "C.UTF-8",
    "XDG_STATE_HOME": "/home/u/state",
    "https_proxy": "http://proxy.example:8080",
    "SSH_AUTH_SOCK": "/run/agent.sock",
    "GIT_AUTHOR_EMAIL": "u@example.com",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "ANTHROPIC_API_KEY": "key-of-the-agent",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "OPENAI_API_KEY": "key-of-another",
    "GITHUB_TOKEN": "token-of-the-user",
    "LD_PRELOAD": "/tmp/evil.so",
    "NODE_OPTIONS": "--require /tmp/evil.js",
    "GIT_DIR": "/elsewhere/.git",
    "TILLERMAN_HOME": "/home/u/tillerman",
    "MY_APP_MODE": "test",
}


def test_a_child_gets_the_list_and_its_agents_variables() -> None:
    child = child_environment(PARENT, ["ANTHROPIC_API_KEY", "CLAUDE_CODE_*"])
    assert child.variables == {
        "PATH": "/usr/bin",
        "HOME": "/home/u",
        "LC_ALL": "C.UTF-8",
        "XDG_STATE_HOME": "/home/u/state",
        "https_proxy": "http://proxy.example:8080",
        "SSH_AUTH_SOCK": "/run/agent.sock",
        "GIT_AUTHOR_EMAIL": "u@example.com",
        "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
        "ANTHROPIC_API_KEY": "key-of-the-agent",
        "CLAUDE_CODE_USE_BEDROCK": "1",
    }
    assert child.secrets == [("ANTHROPIC_API_KEY", "key-of-the-agent")]


def test_requested_variables_are_added_and_a_given_value_wins() -> None:
    passed, given = asked_for(["GITHUB_TOKEN", "MY_APP_*", "PATH=/opt/bin", "EMPTY=", "ABSENT"])
    child = child_environment({"PATH": "/usr/bin", **PARENT}, (), passed, given)
    usual = child_environment(PARENT).variables
    assert child.variables == usual | {
        "GITHUB_TOKEN": "token-of-the-user",
        "MY_APP_MODE": "test",
        "PATH": "/opt/bin",
        "EMPTY": "",
    }
    assert child.secrets == [("GITHUB_TOKEN", "token-of-the-user")]


@pytest.mark.parametrize("word", ["", "=x", "A B", "1A=x", "A*=x", "*", "A-B", "A=x\0y"])
def test_an_invalid_variable_name_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="is not a variable name") as refusal:
        asked_for([word])
    assert "\0" not in refusal.value.message


def test_the_password_of_a_proxy_and_of_a_header_are_secrets() -> None:
    assert secrets_of(
        {
            "HTTPS_PROXY": "http://user:p%40ss-word-1@proxy.example:8080",
            "DATABASE_URL": "postgres://app:db-password@db/x",
            "ANTHROPIC_CUSTOM_HEADERS": "X-Team: blue\nAuthorization: Bearer tok-1\nX-Api-Key: k1",
            "PLAIN_URL": "https://example.com/a:b@c",
        }
    ) == [
        ("HTTPS_PROXY", "p@ss-word-1"),
        ("DATABASE_URL", "db-password"),
        ("ANTHROPIC_CUSTOM_HEADERS", "tok-1"),
        ("ANTHROPIC_CUSTOM_HEADERS", "k1"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_BEARER_TOKEN_BEDROCK",
        "DB_PASSWORD",
        "APIKEY",
        "token",
        "MY_SECRET_2",
        "GH_PAT",
        "AZURE_CLIENT_SECRET",
        "KEY1",
        "NPM_AUTH",
        "SSH_PASSPHRASE",
    ],
)
def test_credential_names_are_recognized(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "KEYBOARD",
        "MONKEY",
        "SSH_AUTH_SOCK",
        "MAX_OUTPUT_TOKENS",
        "AUTH_MODE",
        "KEY_FILE",
        "COMPASS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "TOKENIZERS_PARALLELISM",
        "AUTHOR",
    ],
)
def test_other_names_are_not_taken_for_credentials(name: str) -> None:
    assert not is_credential(name)
