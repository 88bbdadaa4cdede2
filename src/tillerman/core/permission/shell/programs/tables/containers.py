"""Program table: containers and clusters. Commands in them access no local files but mounts."""

from __future__ import annotations

from tillerman.core.permission.shell.programs.roles import suffixes
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_RUN = (
    "-dtiPTq -a|--attach=text -c|--cpu-shares=text -e|--env=text --env-file=read "
    "-h|--hostname=text -l|--label=text --label-file=read -m|--memory=text -p|--publish=text "
    "-u|--user=text -v|--volume=mount --mount=mount -w|--workdir=text --add-host=text "
    "--annotation=text --blkio-weight=text --cap-add=text --cap-drop=text --cgroup-parent=text "
    "--cgroupns=text --cidfile=write --cpus=text --cpuset-cpus=text --device=text --dns=text "
    "--entrypoint=text --expose=text --gpus=text --group-add=text --health-cmd=text --init "
    "--interactive --ip=text --ipc=text --isolation=text --link=text --log-driver=text "
    "--log-opt=text --mac-address=text --memory-swap=text --name=text --network=text --net=text "
    "--no-healthcheck --oom-kill-disable --pid=text --pids-limit=text --platform=text "
    "--privileged --publish-all --pull=text --quiet --read-only --restart=text --rm "
    "--runtime=text --security-opt=text --shm-size=text --sig-proxy --stop-signal=text "
    "--stop-timeout=text --storage-opt=text --sysctl=text --tmpfs=text --tty --ulimit=text "
    "--userns=text --uts=text --volume-driver=text --volumes-from=text --detach "
    "--detach-keys=text --index=text --no-deps --service-ports --no-TTY --build --remove-orphans"
)
_TOP = (
    "-D -v:info --debug --tls --tlsverify -H|--host=host:runs -c|--context=text:runs "
    "-l|--log-level=text --config=code --tlscacert=read --tlscert=read --tlskey=read"
)
_COMPOSE = (
    "-f|--file=read -p|--project-name=text --profile=text --env-file=read --project-directory=dir"
)
_KUBE = (
    "-n|--namespace=text --context=text --kubeconfig=code --cluster=text --user=text "
    "-s|--server=host -A|--all-namespaces -o|--output=text -l|--selector=text -c|--container=text "
    "-f|--filename=mention -v=text --token=text --request-timeout=text"
)


def _all_words(draft: InvocationDraft) -> None:
    draft.mention(draft.words[1:])


def _in_container(draft: InvocationDraft) -> None:
    program = draft.parsed.value("--entrypoint")
    if program:
        rest = [word for run in draft.runs for word in run.words]
        draft.run([program, *rest], "whole", remote=True)
    if draft.parsed.unknown or draft.row.command is None:
        draft.others += suffixes(draft.words)


def _exec(draft: InvocationDraft) -> None:
    """The command follows `--`, or the pod."""
    words = draft.words
    rest = words[words.index("--") + 1 :] if "--" in words else draft.parsed.operands[1:]
    if rest:
        draft.run(rest, "whole", remote=True)
    draft.others += suffixes(words)


def _both(suffix: str) -> str:
    names = suffix.split("|")
    return "|".join(f"{tool} {name}" for name in names for tool in ("docker", "podman", "nerdctl"))


ROWS = (
    Row("docker|podman|nerdctl", "none", "", _TOP, style="posix", refine=_in_container),
    Row(_both("ps|images|inspect|logs|version|info|port|top"
        "|diff|history|stats --no-stream"), "reads", "",
        "-aqlst -f|--filter=text --format=text --no-trunc --all --quiet --size --last=text "
        "--latest --tail=text -n=text --since=text --until=text --timestamps --details --follow "
        "--type=text --digests --tree "
        "--human --no-stream", samples=("docker ps -a", "docker images")),
    Row(_both("image ls|container ls|volume ls|network ls|image inspect|container "
              "inspect|container logs|volume inspect|network inspect|image "
              "history|system df"), "reads", "",
        "-aqs -f|--filter=text --format=text --no-trunc --all --quiet --size --tail=text "
        "--digests -v|--verbose", samples=("docker volume ls",)),
    Row(_both("run|container run|create"), "runs", "text", _RUN, style="posix", command="whole",
        skip=1, remote=True, refine=_in_container),
    Row(_both("exec|container exec"), "runs", "text", _RUN, style="posix", command="whole", skip=1,
        remote=True, refine=_in_container),
    Row(_both("build|buildx build|image build"), "runs", "read/*",
        "-q -t|--tag=text -f|--file=read --build-arg=text --target=text --platform=text "
        "--no-cache --pull --progress=text --secret=mention --ssh=text -o|--output=mention "
        "--iidfile=write --metadata-file=write --cache-from=text --cache-to=mention --label=text "
        "--network=text --push --load --rm --force-rm --squash --quiet --add-host=text "
        "--build-context=mention --builder=text"),
    Row(_both("cp|container cp"), "runs", "mention/*", "-aLq --archive --follow-link --quiet"),
    Row(_both("save|image save|export|container export"), "runs", "", "-o|--output=write"),
    Row(_both("load|image load|import"), "runs", "mention*", "-q -i|--input=read"),
    Row(_both("compose version|compose ls"), "reads", "", "-aq --short --format=text --filter=text",
        samples=("docker compose version",)),
    # These read the project's own file, which may include others over the network.
    Row(_both("compose ps|compose images|compose logs|compose config"), "runs", "", ""),
    Row("kubectl|oc|k3s", "runs", "", _KUBE, style="posix", refine=_in_container),
    Row("kubectl cp|oc cp", "runs", "mention/*", _KUBE),
    Row("kubectl exec|oc exec|oc rsh", "runs", "text", f"-itq {_KUBE} --stdin --tty --quiet "
        "--pod-running-timeout=text",
        refine=_exec),
    Row("kubectl get|kubectl describe|kubectl logs|kubectl "
        "top|kubectl version|kubectl config", "runs",
        "", f"-whp {_KUBE} --watch --all --sort-by=text --tail=text --follow --previous "
            "--since=text"),
    Row("gh", "none", "", "", style="posix"),
    Row("gh pr|gh issue|gh repo|gh api|gh run|gh release|gh auth|gh workflow|gh gist|gh secret|gh "
        "search|gh extension|gh alias|gh "
        "browse|gh codespace", "runs", "mention*", "", style="posix",
        refine=_all_words),
)  # fmt: skip
