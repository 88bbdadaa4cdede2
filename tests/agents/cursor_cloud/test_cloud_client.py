"""The client of the cloud API: every endpoint over real HTTP, as the recordings have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.cursor_cloud.conftest import Connect
from tests.stand_ins.cursor_cloud import CursorCloud, StreamedEvent, recorded_events, recording
from tillerman.agents.cursor_cloud.client import CursorCloudClient
from tillerman.agents.cursor_cloud.request_bodies import repository_url
from tillerman.core.agent import File, Prompt
from tillerman.core.cloud import CloudLaunch, CloudWebhook
from tillerman.core.errors import TillermanError, Unsupported, UsageError
from tillerman.core.events import MessageChunk, TurnEnded, UserMessage

REPOSITORY = "https://github.com/your-org/your-repo"
SECRET = "0123456789abcdef0123456789abcdef"


def launch(text: str = "Add a README", **fields: Any) -> CloudLaunch:
    return CloudLaunch(Prompt(text), **{"repository": REPOSITORY, **fields})


async def test_a_launch_sends_what_the_recording_has(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    image = File("a.png", "image/png", b"\x89PNG\r\n\x1a\n")
    prompt = Prompt("Add a README with setup instructions", (image,))
    agent = await client.launch(
        CloudLaunch(
            prompt, "composer-2", REPOSITORY, "main", create_pull_request=True, name="Add README"
        )
    )
    sent, recorded = cloud.asked[-1], recording("v1_create_agent")["request"]
    assert (sent.method, sent.path) == (recorded["method"], recorded["path"])
    assert sent.body["prompt"] == recorded["body"]["prompt"]
    for key in ("repos", "autoCreatePR", "name", "mode"):
        assert sent.body[key] == recorded["body"][key]
    assert sent.body["model"]["id"] == "composer-2"
    assert set(sent.body) - set(recorded["body"]) == {"agentId"}
    assert agent.id == sent.body["agentId"]
    assert (agent.state, agent.repository) == ("starting", REPOSITORY)


async def test_a_launch_on_a_pull_request_works_on_its_branch(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    recorded = recording("v1_create_agent_pr")["request"]["body"]
    await client.launch(
        CloudLaunch(Prompt("Address the review"), pull_request=recorded["repos"][0]["prUrl"])
    )
    sent = cloud.asked[-1].body
    assert {key: sent[key] for key in recorded} == recorded


async def test_a_launch_with_a_webhook_and_a_branch_name_uses_version_0(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    recorded = recording("v0_launch_agent")["request"]["body"]
    agent = await client.launch(
        launch(
            "Add README documentation",
            ref="main",
            model="claude-4-sonnet",
            branch="feature/readme",
            create_pull_request=True,
            webhook=CloudWebhook("https://hooks.example.com/cursor", SECRET),
        )
    )
    sent = cloud.asked[-1].body
    for key in ("model", "source", "webhook"):
        assert sent[key] == recorded[key]
    assert sent["target"].items() <= recorded["target"].items()
    assert agent.id.startswith("bc_")


async def test_every_endpoint_of_an_agent(
    client: CursorCloudClient, cloud: CursorCloud, tmp_path: Path
) -> None:
    id = (await client.launch(launch())).id
    news = [one async for one in client.watch(id)]
    assert news[-1].events[-1] == TurnEnded(reason="completed")
    agent = await client.agent(id)
    assert (agent.state, agent.status) == ("finished", "FINISHED")
    assert agent.branches[0].pull_request == f"{REPOSITORY}/pull/123"
    assert agent.branches[0].repository == REPOSITORY
    assert not await client.stop(id)
    await client.follow_up(id, Prompt("Also add troubleshooting steps"))
    assert cloud.asked[-1].body["prompt"] == {"text": "Also add troubleshooting steps"}
    assert await client.stop(id)
    assert (await client.agent(id)).state == "cancelled"
    assert [run.status async for run in client.runs(id)] == ["CANCELLED", "FINISHED"]
    assert (await client.usage(id)).total_tokens == 76390
    first = cloud.agents[id].runs[0].id
    assert (await client.usage(id, first)).input_tokens == 6320
    [artifact] = await client.artifacts(id)
    assert await client.download(id, artifact.path, tmp_path / "shot.png") == len(cloud.artifact)
    assert (tmp_path / "shot.png").read_bytes() == cloud.artifact
    assert "authorization" not in cloud.asked[-1].headers  # the link is of another host
    await client.archive(id)
    assert (await client.agent(id)).state == "archived"
    await client.archive(id, archived=False)
    await client.delete(id)
    assert cloud.deleted == [id]


async def test_every_endpoint_of_an_agent_of_version_0(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    id = (await client.launch(launch("Say hello", branch="b"))).id
    news = [one async for one in client.watch(id)]
    assert news[-1].state == "finished"
    assert [event for one in news for event in one.events] == [
        UserMessage(text="Say hello", how="imported"),
        MessageChunk(message_id="msg_003", text="Done."),
        TurnEnded(reason="completed"),
    ]
    await client.follow_up(id, Prompt("Again"))
    assert await client.stop(id)
    assert (await client.agent(id)).state == "cancelled"
    assert [one.id async for one in client.v0_agents()] == [id]
    assert [type(event) for event in await client.history(id)] == [
        UserMessage, MessageChunk, UserMessage,
    ]  # fmt: skip
    await client.delete(id)
    with pytest.raises(TillermanError, match="404"):
        await client.agent(id)


async def test_the_account(client: CursorCloudClient) -> None:
    assert (await client.identity()).user == "dev@example.com"
    assert [model.id for model in await client.models()] == [
        "composer-2", "claude-4.6-sonnet-thinking",
    ]  # fmt: skip
    assert (await client.repositories()).urls == (REPOSITORY,)


async def test_all_pages_are_listed_and_an_agent_that_moves_comes_once(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    ids = [(await client.launch(launch(str(number)))).id for number in range(7)]

    def shift() -> None:
        """A launch while pages are read moves every agent to a later place."""
        cloud.between_pages = lambda: None
        cloud._launch({"prompt": {"text": "between"}, "agentId": "bc-between"})

    cloud.between_pages = shift
    listed = [agent.id async for agent in client.agents()]
    assert listed == list(reversed(ids))


async def test_a_cursor_that_repeats_does_not_list_forever(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    await client.launch(launch())
    cloud.page = 1
    cloud._page = lambda items, asked, key="items": {key: items, "nextCursor": "x"}  # type: ignore[method-assign]
    assert len([agent async for agent in client.agents()]) == 1


async def test_an_answer_with_an_etag_is_not_sent_again(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    cloud.etag = '"1"'
    first = await client.models()
    assert await client.models() == first
    assert cloud.asked[-1].headers["if-none-match"] == '"1"'


async def test_the_list_of_repositories_is_asked_for_once_a_minute(
    connect: Connect, cloud: CursorCloud
) -> None:
    first = await connect().repositories()
    again = await connect().repositories()  # another process has the same cache
    assert first.age == 0
    assert again.urls == first.urls and 0 <= again.age < 30
    assert [asked.path for asked in cloud.asked] == ["/v1/repositories"]


async def test_a_watched_run_gives_the_recorded_events(client: CursorCloudClient) -> None:
    id = (await client.launch(launch())).id
    events = [event async for news in client.watch(id) for event in news.events]
    kinds = [type(event).__name__ for event in events]
    assert kinds == [
        "ThoughtChunk", "MessageChunk", "MessageChunk", "ToolStarted", "ToolFinished",
        "ToolStarted", "ToolFinished", "Unrecognized", "MessageChunk", "Notice", "TurnEnded",
    ]  # fmt: skip
    said = [event.text for event in events if isinstance(event, MessageChunk)]
    assert said == [
        "I'll update ",
        "the README now.",
        "Added README.md with installation instructions.",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"webhook": CloudWebhook("https://a.example", "short")}, "shorter than 32"),
        ({"webhook": CloudWebhook("http://a.example", SECRET)}, "not https"),
        ({"pull_request": "https://github.com/x"}, "not the URL of a pull request"),
        ({"repository": "/srv/git/x"}, "cannot reach"),
        ({"repository": None, "ref": "main"}, "needs a repository"),
        ({"repository": None, "branch": "b"}, "needs a repository"),
        ({"prompt": Prompt("  ")}, "prompt is empty"),
        ({"prompt": Prompt("x", (File("a", "image/png", b"1"),) * 6)}, "6 images"),
    ],
)
async def test_an_invalid_launch_is_refused_before_anything_is_sent(
    client: CursorCloudClient, cloud: CursorCloud, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        await client.launch(
            CloudLaunch(**{"prompt": Prompt("x"), "repository": REPOSITORY, **fields})
        )
    assert raised.value.hint
    assert not cloud.asked


async def test_a_file_that_is_no_image_is_not_supported(client: CursorCloudClient) -> None:
    with pytest.raises(Unsupported, match="text/plain"):
        await client.launch(CloudLaunch(Prompt("x", (File("a", "text/plain", b"1"),))))


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("git@github.com:your-org/your-repo.git", REPOSITORY),
        ("ssh://git@github.com:22/your-org/your-repo.git", REPOSITORY),
        ("https://name:token@github.com/your-org/your-repo.git", REPOSITORY),
        ("https://github.com/your-org/your-repo/", REPOSITORY),
        ("github.com/your-org/your-repo", REPOSITORY),
        ("git://github.com/your-org/your-repo", REPOSITORY),
    ],
)
def test_the_url_of_a_remote_has_no_password(remote: str, url: str) -> None:
    assert repository_url(remote) == url


async def test_unknown_statuses_events_and_fields_are_kept_as_they_came(
    client: CursorCloudClient, cloud: CursorCloud
) -> None:
    odd = StreamedEvent("1-0", "hologram", '{"depth":3}')
    call = StreamedEvent("1-1", "tool_call", '{"callId":"c","name":"fly","status":"soaring"}')
    status = StreamedEvent("1-2", "status", '{"status":"DREAMING"}')
    broken = StreamedEvent("1-3", "assistant", '{"text": 7, "x": NaN}')
    end = {"status": "ASCENDED", "text": "", "new": {"field": 1}}
    result = StreamedEvent("1-4", "result", json.dumps(end))
    cloud.script = lambda: [odd, call, status, broken, result, StreamedEvent("1-4", "done", "{}")]
    id = (await client.launch(launch())).id
    cloud.agents[id].runs[0].status = "ASCENDED"
    assert (await client.agent(id)).state == "unknown"
    assert (await client.agent(id)).status == "ASCENDED"
    events = [event async for news in client.watch(id) for event in news.events]
    raw = [event.raw for event in events if type(event).__name__ == "Unrecognized"]
    assert len(raw) == 5
    for event in (odd, call, status, broken, result):
        assert any(event.kind in one and event.data in one for one in raw)
    assert events[-1] == TurnEnded(reason="completed")


def test_the_recorded_streams_are_of_the_known_kinds() -> None:
    assert {event.kind for event in recorded_events()} == {
        "status", "thinking", "assistant", "tool_call", "heartbeat", "interaction_update",
        "result", "done",
    }  # fmt: skip
