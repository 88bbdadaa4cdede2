"""Program table: network programs (curl, wget, ssh, rsync, openssl)."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlsplit

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE
from tillerman.core.permission.shell.programs.options import grammar, parse
from tillerman.core.permission.shell.programs.roles import suffixes, take
from tillerman.core.permission.shell.programs.row import InvocationDraft, Row

_FAR = re.compile(r"^(?:[\w.@\[\]-]+:(?!//)|\w+://|[\w.@-]+::)")
_SSH = (
    "-46AaCfGgKkMNnqsTtVvXxYy -B=text -b=text -c=text -D=text -E=write -e=text -F=code -I=code "
    "-i=read -J=host -L=text -l=text -m=text -O=text -o=code -p=text -Q=text -R=text -S=text "
    "-W=host -w=text"
)


def _saved_as(url: str) -> str:
    """The name of the local file that a download is saved as."""
    try:
        path = urlsplit(url if "://" in url else f"//{url}").path
    except ValueError:
        return HOLE
    return posixpath.basename(path) or "index.html"


_GLOBBED = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]")  # of curl, in addresses and names of uploads
_QUERY = re.compile(f"[?#{ONE}].*|^/+(?=/)")  # `?` may be a glob of the shell, and stay as it is
_NUMBERED = re.compile(r"#\d")  # in names of outputs: what the glob of that number stood for
_WRITE_OUT = re.compile(r"%output\{(?:>>)?([^{}]*)\}")


def _local_file(url: str) -> str | None:
    """The file that a `file:` address means; None for other addresses."""
    if url[:5].lower() != "file:":
        return None
    path = url[5:]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        path = (
            slash + rest if slash and host.lower() in ("", "localhost", "127.0.0.1") else path[2:]
        )
    return unquote(_QUERY.sub("", path))


def _curl(draft: InvocationDraft) -> None:
    parsed = draft.parsed
    urls = [*parsed.operands, *(value for option, value in parsed.values if option.name == "--url")]
    folder = parsed.value("--output-dir") or ""
    uploads = []
    for option, value in parsed.values:
        if option.name == "--output":
            draft.access(_NUMBERED.sub(ANY, posixpath.join(folder, value)), "write")
        elif option.name == "--upload-file":
            uploads.append(_GLOBBED.sub(HOLE, value))
            draft.access(uploads[-1], "read")
        elif option.name == "--write-out":
            for path in _WRITE_OUT.findall(value):
                draft.access(path, "write")
    for url in urls:
        local = _local_file(_GLOBBED.sub(HOLE, url))
        if local is not None and uploads:
            for name in uploads:
                into = posixpath.join(local, posixpath.basename(name)) if local[-1:] == "/" else ""
                draft.access(into or local, "write")
        elif local is not None:
            draft.access(local, "read")
            draft.access(url[5:].removeprefix("//"), "read")
        if "remote_name" in parsed.marks:
            draft.access(posixpath.join(folder, _saved_as(url)), "write")
    if "remote_header" in parsed.marks:
        draft.access(HOLE, "write")


def _wget(draft: InvocationDraft) -> None:
    parsed = draft.parsed
    folder = parsed.value("--directory-prefix") or ""
    if parsed.value("--output-document") is None and "spider" not in parsed.marks:
        for url in parsed.operands:
            draft.access(posixpath.join(folder, _saved_as(url)), "write")


def _copy(draft: InvocationDraft) -> None:
    """rsync and scp: the last operand is written, the others are read, except remote ones."""
    *sources, target = draft.parsed.operands or [""]
    marks = draft.parsed.marks
    tree = "recursive" in marks
    for source in sources:
        if not _FAR.match(source):
            draft.access(source, "read", recursive=tree)
    if not target or not sources or _FAR.match(target):
        return
    for source in sources:
        base = posixpath.basename(source.partition(":")[2].rstrip("/") or source.rstrip("/"))
        if source.endswith("/") or base in ("", ".", ".."):
            draft.access(target, "write", recursive=tree)
        else:
            draft.access(posixpath.join(target, base), "write", recursive=tree)
            if tree and not _FAR.match(source):
                draft.links.append((HOLE, posixpath.join(target, base)))
    certain = target.endswith("/") or posixpath.normpath(target) in (".", "..")
    draft.access(target, "write", recursive=tree and not certain)
    if "deletes" in marks:
        draft.access(target, "remove", recursive=True)


def _sftp(draft: InvocationDraft) -> None:
    """Its commands come from standard input, or from a file."""
    if text := draft.stdin.text:
        draft.doubt("commands that sftp reads from its input")
        draft.mention(text.split())


def _stores(draft: InvocationDraft) -> None:
    """Copies between folders and remote stores; a folder includes everything in it."""
    *sources, target = draft.parsed.operands or [""]
    for source in sources:
        if not _FAR.match(source):
            draft.access(source, "read", recursive=True)
    if not _FAR.match(target):
        draft.access(target, "write")


def _ssh(draft: InvocationDraft) -> None:
    """Options may precede and follow the host."""
    options = grammar(_SSH)
    rest = list(draft.words[1 + parse(draft.words[1:], options, "posix").rest :])
    if not rest:
        return
    take(draft, "host", rest[0])
    behind = parse(rest[1:], options, "posix")
    for option, value in behind.values:
        take(draft, option.role, value, f"{option.name} of ssh")
    command = rest[1 + behind.rest :]
    if command:
        draft.script(" ".join(command).replace(HOLE, "$_"), remote=True)
        draft.others += suffixes(draft.words)


def _keys(draft: InvocationDraft) -> None:
    """Writes a new key, unless it is to show one."""
    marks, file = draft.parsed.marks, draft.parsed.value("-f")
    looks = "looks" in marks or any(
        re.match("-[A-Za-z]*[elyBLQ]", word) for word in draft.words[1:]
    )
    if file is not None and looks:
        draft.access(file, "read")
    elif file is not None:
        draft.access(file, "write")
        draft.access(f"{file}.pub", "write")
    elif "known" in marks:
        draft.access("~/.ssh/known_hosts", "write")


_OPENSSL = (
    "asn1parse ca ciphers cms crl crl2pkcs7 dgst dhparam dsa dsaparam ec ecparam enc engine errstr "
    "fipsinstall gendsa genpkey genrsa info kdf list mac nseq ocsp passwd pkcs12 pkcs7 pkcs8 pkey "
    "pkeyparam pkeyutl prime rand rehash req rsa rsautl s_client s_server s_time sess_id smime "
    "speed spkac srp storeutl ts verify"
)

ROWS = (
    Row("curl", "runs", "",
        "-aqfGgI0ik46jlLMnN23sSvVBZpR1 -O|--remote-name:remote_name "
        "-J|--remote-header-name:remote_header --remote-name-all:remote_name -o|--output=text "
        "--output-dir=write -D|--dump-header=write -c|--cookie-jar=write --trace=write "
        "--trace-ascii=write --stderr=write --libcurl=write --etag-save=write --hsts=write "
        "--alt-svc=write -T|--upload-file=read -K|--config=code -d|--data=data --data-ascii=data "
        "--data-binary=data --json=data --data-raw=text --data-urlencode=named --url-query=named "
        "--variable=named -F|--form=form --form-string=text -b|--cookie=mention -H|--header=data "
        "--proxy-header=data -w|--write-out=data --cacert=read --capath=read -E|--cert=mention "
        "--key=read --pubkey=read --crlfile=read --egd-file=read --random-file=read "
        "--netrc-file=read --etag-compare=read --proxy-cacert=read --proxy-capath=read "
        "--proxy-cert=mention --proxy-key=read --proxy-crlfile=read --unix-socket=mention "
        "--abstract-unix-socket=text --engine=code -x|--proxy=host --preproxy=host --socks4=host "
        "--socks4a=host --socks5=host --socks5-hostname=host --proxy1.0=host --doh-url=host "
        "--url=host --connect-to=text --resolve=text -A|--user-agent=text -C|--continue-at=text "
        "-e|--referer=text -m|--max-time=text --max-filesize=text --max-redirs=text "
        "--connect-timeout=text -P|--ftp-port=text -Q|--quote=text -r|--range=text --rate=text "
        "-X|--request=text --request-target=text --retry=text --retry-delay=text "
        "--retry-max-time=text -t|--telnet-option=text -u|--user=text -U|--proxy-user=text "
        "-Y|--speed-limit=text -y|--speed-time=text -z|--time-cond=mention --limit-rate=text "
        "--oauth2-bearer=text --interface=text --ciphers=text --proto=text --tls-max=text "
        "--parallel-max=text --noproxy=text --aws-sigv4=text --cert-type=text "
        "--create-file-mode=text --dns-servers=text --keepalive-time=text --local-port=text "
        "--pinnedpubkey=text --proto-redir=text -h|--help=text --anyauth --append --basic "
        "--compressed --create-dirs --crlf --digest --disable --fail --fail-early "
        "--fail-with-body --ftp-create-dirs --get --globoff --head --http1.0 --http1.1 --http2 "
        "--http3 --include --insecure --ipv4 --ipv6 --junk-session-cookies --list-only --location "
        "--location-trusted --manual --negotiate --netrc --netrc-optional --next --no-buffer "
        "--no-clobber --no-keepalive --no-progress-meter --ntlm --parallel --path-as-is "
        "--progress-bar --proxytunnel --raw --remote-time --remove-on-error --retry-all-errors "
        "--retry-connrefused --show-error --silent --ssl --ssl-reqd --styled-output --tcp-nodelay "
        "--tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3 --trace-time --use-ascii --verbose "
        "--xattr", hosts=True, refine=_curl),
    Row("wget|wget2", "runs", "",
        "-bcdqvVhNS46xErkKmpHLFnj -nv -nc -nd -nH -np -O|--output-document=write "
        "-P|--directory-prefix=write/ -o|--output-file=write -a|--append-output=write "
        "--save-cookies=write --warc-file=write --warc-tempdir=write --hsts-file=write "
        "--rejected-log=write -e|--execute=code --config=code --use-askpass=program "
        "-i|--input-file=list --post-file=read --body-file=read --load-cookies=read "
        "--certificate=read --private-key=read --ca-certificate=read --ca-directory=read "
        "--crl-file=read -t|--tries=text -T|--timeout=text -w|--wait=text -Q|--quota=text "
        "-U|--user-agent=text -A|--accept=text -R|--reject=text -D|--domains=text "
        "-I|--include-directories=text -X|--exclude-directories=text -l|--level=text "
        "-B|--base=text --header=text --method=text --body-data=text --post-data=text --user=text "
        "--password=text --limit-rate=text --progress=text --max-redirect=text --cut-dirs=text "
        "--referer=text --compression=text --spider:spider --quiet --verbose --no-verbose "
        "--continue --timestamping --no-clobber --show-progress --no-check-certificate "
        "--recursive --mirror --page-requisites --no-parent --convert-links --adjust-extension "
        "--content-disposition --server-response --background --no-cache --no-hsts --https-only",
        hosts=True, refine=_wget),
    Row("ssh|slogin", "runs", "", _SSH, style="posix", hosts=False, refine=_ssh),
    Row("gpg|gpg2", "runs", "mention*",
        "-aesbcdkKqvtz -o|--output=write --homedir=write/ -r|--recipient=text -u|--local-user=text "
        "--export-ownertrust --armor --sign --encrypt --decrypt --verify --list-keys --import "
        "--log-file=write --status-file=write --attribute-file=write --logger-file=write "
        "--keyring=write --secret-keyring=write --trustdb-name=write --batch --yes "
        "--options=code --agent-program=program --dirmngr-program=program --photo-viewer=program "
        "--exec-path=code --load-extension=code --passphrase-file=read --passphrase=text"),
    Row("ssh-keygen", "runs", "mention*",
        "-qcpvoAKUueiByLlHkhgQ -F=text:looks -N=text -t=text -b=text -C=text -f=text -R=text:known "
        "-D=code -s=read -I=text -n=text -O=text -V=text -z=text -P=text -Z=text -m=text -a=text "
        "-E=text -M=text -Y=text:looks -w=code -W=text -r=text:looks", refine=_keys),
    Row("scp", "runs", "",
        "-346ABCOpqRsTv -r:recursive -c=text -D=program -F=code -i=read -J=host -l=text -o=code "
        "-P=text -S=program -X=text", hosts=True, follows_links=True, refine=_copy),
    Row("sftp", "runs", "mention*",
        "-46AaCfNpqrv -B=text -b=code -c=text -D=program -F=code -i=read -J=host -l=text -o=code "
        "-P=text -R=text -S=program -s=text -X=text", hosts=True, refine=_sftp),
    Row("aws|gsutil|rclone|gcloud", "runs", "mention*", "", style="posix", passes=True),
    Row("aws s3 cp|aws s3 sync|aws s3 mv|gsutil cp|gsutil rsync|gsutil mv|rclone copy|rclone sync"
        "|rclone move|rclone copyto|gcloud storage cp|gcloud storage rsync", "runs", "",
        "-rnqvP --recursive --dryrun --dry-run --delete --quiet --exclude=text --include=text "
        "--acl=text --profile=text --region=text --progress", refine=_stores),
    Row("rsync", "runs", "",
        "-vqcRubnIWxWHAXNDtogpESzhKkJOFiPsy468 -a|--archive:recursive -r|--recursive:recursive "
        "-l|-d -L|--copy-links:follows --copy-unsafe-links:follows --copy-dirlinks:follows "
        "-e|--rsh=program --rsync-path=program -f|--filter=text -B|--block-size=text "
        "-T|--temp-dir=write -M|--remote-option=code --files-from=list --exclude=text "
        "--include=text --exclude-from=read --include-from=read --log-file=write "
        "--backup-dir=write/ --partial-dir=write --write-batch=write --only-write-batch=write "
        "--read-batch=read --password-file=read --compare-dest=read --copy-dest=read "
        "--link-dest=read --delete:deletes --del:deletes --delete-before:deletes "
        "--delete-during:deletes --delete-delay:deletes --delete-after:deletes "
        "--delete-excluded:deletes --remove-source-files:deletes --chmod=text --chown=text "
        "--bwlimit=text --max-size=text --min-size=text --timeout=text --port=text --info=text "
        "--debug=text --out-format=text --progress --partial --stats --verbose --quiet --dry-run "
        "--checksum --update --compress --links --perms --times --group --owner "
        "--human-readable --ignore-existing --existing --inplace --append --no-perms --no-owner "
        "--no-group --no-times --mkpath --numeric-ids --itemize-changes --relative --backup "
        "--suffix=text",
        hosts=True, refine=_copy),
    Row("nc|ncat|netcat", "runs", "mention*",
        "-46bCDdFhklNnrStUuvZz -e|--exec=program -c|--sh-exec=program --lua-exec=code -p=text "
        "-w=text -i=text -X=text -x=host -s=text -q=text -o|--output=write --ssl --listen "
        "--verbose", hosts=True),
    Row("socat", "runs", "code*", "-dDhvVxuUgs -t=text -T=text -b=text -lf=write"),
    Row("telnet|ftp|ping|ping6|dig|nslookup|host|http|https|xh"
        "|aria2c|traceroute|whois|mosh|nmap", "runs",
        "mention*", "--script=code", hosts=True),
    Row("tcpdump", "runs", "", "-z=program -w=write -r=read -i=text -c=text -nvXAe"),
    Row("openssl", "runs", "mention*", "-help:info", style="posix"),
    Row("openssl x509", "reads", "",
        "-in=read -inform=text -noout -text -dates -startdate -enddate -subject -issuer -serial "
        "-fingerprint -pubkey -modulus -purpose -hash -subject_hash -issuer_hash -email -alias "
        "-ocspid -ocsp_uri -checkend=text -checkhost=text -checkip=text -checkemail=text "
        "-ext=text -nameopt=text -certopt=text -dateopt=text -sha1 -sha256 -sha384 -sha512 -md5 "
        "-out=write -engine=code -provider=code -config=code", style="single",
        samples=("openssl x509 -in cert.pem -noout -text",
                 "openssl x509 -in cert.pem -noout -dates -subject")),
    Row("openssl version", "none", "", "-abdefoprvm", samples=("openssl version",)),
    Row("|".join(f"openssl {name}" for name in _OPENSSL.split()), "runs", "mention*",
        "-engine=code -provider=code -out=write -in=read -keyout=write -key=mention -config=code "
        "-writerand=write -outdir=write -keylogfile=write -sess_out=write -CAserial=write",
        style="single"),
)  # fmt: skip
