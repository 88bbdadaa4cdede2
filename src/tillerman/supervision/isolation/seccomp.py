"""Seccomp filter of system calls that a confined command may not make.

All other calls are allowed. The listed ones bypass Landlock, leave namespaces, or reach parts of
the kernel that no build or test needs and that exploits often use.
"""

from __future__ import annotations

import errno
import struct
from typing import NamedTuple


class Machine(NamedTuple):
    audit: int  # audit architecture of the kernel
    column: int  # in the table of calls
    foreign: int | None  # numbers from here on belong to another ABI


MACHINES = {
    "x86_64": Machine(0xC000003E, 0, 0x40000000),
    "aarch64": Machine(0xC00000B7, 1, None),
}

# name: number on x86_64, on aarch64; None where it does not exist
_CLOSED = {
    # file systems and root folders
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_by_handle_at": (304, 265), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "fanotify_init": (300, 262),
    # namespaces
    "unshare": (272, 97), "setns": (308, 268),
    # keyrings of the user's login, which namespaces do not fully isolate
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    # large and fast-changing parts of the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # administration of the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "iopl": (172, None), "ioperm": (173, None), "syslog": (103, 116), "vhangup": (153, 58),
    "sethostname": (170, 161), "setdomainname": (171, 162), "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42), "uselib": (134, None), "modify_ldt": (154, None),
}  # fmt: skip

# Refused where no namespace separates the command from other processes of the same user.
_REACHING_OUT = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "move_pages": (279, 239), "migrate_pages": (256, 238),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190),
    "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # Landlock does not cover sockets with a path: the user's ssh agent, D-Bus, Docker
    "connect": (42, 203),
}  # fmt: skip

_CLONE, _CLONE3, _SOCKET, _SOCKETPAIR, _IOCTL = (
    (56, 220),
    (435, 435),
    (41, 198),
    (53, 199),
    (16, 29),
)

_NAMESPACES = 0x7E020000  # the namespace flags of clone
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET = 1, 5
_TYPE = 0xF  # the remaining bits of a socket's type are flags
_PUT_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_RET|K
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY = 0x15, 0x35, 0x45  # BPF_JMP|…|K
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_REFUSE = 0x00050000 | errno.EPERM
_ABSENT = 0x00050000 | errno.ENOSYS
_NUMBER, _AUDIT = 0, 4  # offsets in seccomp_data

Step = tuple[int, int, int, int]


def program(level: str, machine: Machine) -> bytes:
    """Builds the filter. medium: no outside access. high: what its namespaces leave open."""
    steps: list[Step] = [
        (_LOAD, 0, 0, _AUDIT),
        *_unless(_IF_EQUAL, machine.audit, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine.foreign is not None:
        steps += _when(_IF_AT_LEAST, machine.foreign, _REFUSE)
    closed = dict(_CLOSED)
    if level == "medium":
        closed |= _REACHING_OUT
    for numbers in closed.values():
        if (number := numbers[machine.column]) is not None:
            steps += _when(_IF_EQUAL, number, _REFUSE)
    # clone3 has its flags in memory, which a filter cannot read; the C library falls back to clone
    steps += _when(_IF_EQUAL, _CLONE3[machine.column], _ABSENT)
    steps += _call(_CLONE[machine.column], _argument(0), _when(_IF_ANY, _NAMESPACES, _REFUSE))
    terminal = [step for one in _PUT_INTO_TERMINAL for step in _when(_IF_EQUAL, one, _REFUSE)]
    steps += _call(_IOCTL[machine.column], _argument(1), terminal)
    for call in (_SOCKET, _SOCKETPAIR):
        steps += _sockets(level, call[machine.column])
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _sockets(level: str, number: int) -> list[Step]:
    if level == "medium":  # stream types only: datagrams carry an address and need no connect
        families: tuple[int, ...] = (_UNIX,)
        types = [*_argument(1), (_AND, 0, 0, _TYPE), *_among((_STREAM, _SEQPACKET))]
    else:  # in its own network namespace; families such as AF_VSOCK are not namespaced
        families, types = (_UNIX, _INET, _INET6, _NETLINK), []
    return _call(number, _argument(0), [*_among(families), *types])


def _call(number: int, load: list[Step], body: list[Step]) -> list[Step]:
    """Checks an argument of one call: the body refuses or continues; then reloads the number."""
    inner = [*load, *body, (_LOAD, 0, 0, _NUMBER)]
    return [(_IF_EQUAL, 0, len(inner), number), *inner]


def _argument(index: int) -> list[Step]:
    """Loads the low half of an argument on little-endian machines; the kernel ignores the rest."""
    return [(_LOAD, 0, 0, 16 + 8 * index)]


def _when(test: int, value: int, verdict: int) -> list[Step]:
    return [(test, 0, 1, value), (_RETURN, 0, 0, verdict)]


def _unless(test: int, value: int, verdict: int) -> list[Step]:
    return [(test, 1, 0, value), (_RETURN, 0, 0, verdict)]


def _among(values: tuple[int, ...]) -> list[Step]:
    """Continues if the value is one of these, else refuses."""
    tests = [(_IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [*tests, (_RETURN, 0, 0, _REFUSE)]
