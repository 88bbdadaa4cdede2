"""The system call filter, run step by step for each architecture it supports."""

from __future__ import annotations

import struct

import pytest

from tillerman.supervision.isolation.seccomp import MACHINES, program

ALLOW, REFUSE, ABSENT, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
CLONE = {"x86_64": 56, "aarch64": 220}
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
IOCTL = {"x86_64": 16, "aarch64": 29}
CONNECT = {"x86_64": 42, "aarch64": 203}
PTRACE = {"x86_64": 101, "aarch64": 117}
MOUNT = {"x86_64": 165, "aarch64": 40}
OPENAT = {"x86_64": 257, "aarch64": 56}


def verdict(steps: bytes, audit: int, number: int, *arguments: int) -> int:
    """As the kernel runs it."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, audit, 0, *given)
    code = list(struct.iter_unpack("=HBBI", steps))
    held, at = 0, 0
    while True:
        kind, yes, no, value = code[at]
        at += 1
        match kind:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x54:
                held &= value
            case 0x06:
                return int(value)
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case 0x45:
                at += yes if held & value else no
            case _:
                raise AssertionError(f"no such step: {kind:#x}")


@pytest.fixture(params=list(MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(machine: str, level: str, number: int, *arguments: int) -> int:
    chosen = MACHINES[machine]
    return verdict(program(level, chosen), chosen.audit, number, *arguments)


@pytest.mark.parametrize("level", ["medium", "high"])
def test_calls_no_level_permits(machine: str, level: str) -> None:
    assert check(machine, level, OPENAT[machine]) == ALLOW
    assert check(machine, level, MOUNT[machine]) == REFUSE
    assert check(machine, level, 435) == ABSENT
    assert check(machine, level, CLONE[machine], 0x01200011) == ALLOW  # as fork does
    assert check(machine, level, CLONE[machine], 0x003D0F00) == ALLOW  # as a thread does
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert check(machine, level, CLONE[machine], 0x11 | flag) == REFUSE
    assert check(machine, level, IOCTL[machine], 0, 0x5401) == ALLOW
    assert check(machine, level, IOCTL[machine], 0, 0x5412) == REFUSE
    assert check(machine, level, IOCTL[machine], 0, (1 << 32) + 0x541C) == REFUSE


def test_medium_has_sockets_without_a_peer(machine: str) -> None:
    for call in (SOCKET[machine], SOCKETPAIR[machine]):
        assert check(machine, "medium", call, 1, 1 | 0o2000000) == ALLOW
        assert check(machine, "medium", call, 1, 5) == ALLOW
        assert check(machine, "medium", call, 1, 2) == REFUSE
        assert check(machine, "medium", call, 1, 3) == REFUSE  # which the kernel takes for 2
        for family in (2, 10, 16, 17, 38, 40):
            assert check(machine, "medium", call, family, 1) == REFUSE
    assert check(machine, "medium", CONNECT[machine]) == REFUSE
    assert check(machine, "medium", PTRACE[machine]) == REFUSE


def test_high_has_what_its_namespaces_contain(machine: str) -> None:
    for family in (1, 2, 10, 16):
        assert check(machine, "high", SOCKET[machine], family, 2) == ALLOW
    for family in (17, 38, 40):  # packets, the kernel's ciphers, other virtual machines
        assert check(machine, "high", SOCKET[machine], family, 1) == REFUSE
    assert check(machine, "high", CONNECT[machine]) == ALLOW
    assert check(machine, "high", PTRACE[machine]) == ALLOW


@pytest.mark.parametrize("level", ["medium", "high"])
def test_calls_of_another_instruction_set_end_the_program(machine: str, level: str) -> None:
    chosen = MACHINES[machine]
    for other in (0x40000003, 0x40000028):  # 32-bit x86 and ARM
        assert verdict(program(level, chosen), other, 20) == KILL
    if machine == "x86_64":
        assert check(machine, level, 0x40000000 + 39) == REFUSE
