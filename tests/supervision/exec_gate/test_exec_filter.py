"""The filter's program, run by a BPF interpreter: also for other architectures."""

from __future__ import annotations

import struct

import pytest

from tillerman.supervision.exec_gate import seccomp

ALLOW, NOTIFY, KILL = 0x7FFF0000, 0x7FC00000, 0x80000000
X86_64, I386, AARCH64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
# execve and execveat, as the kernel's tables have them
CALLS = {
    "x86_64": {X86_64: {59, 322, 0x40000000 | 520, 0x40000000 | 545}, I386: {11, 358}},
    "aarch64": {AARCH64: {221, 281}, ARM: {11, 387}},
}


def run(program: bytes, arch: int, number: int) -> int:
    """What the kernel would do with a call."""
    steps = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    data = struct.pack("=II", number, arch)
    value, at = 0, 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        match code:
            case 0x20:
                value = int.from_bytes(data[operand : operand + 4], "little")
            case 0x15:
                at += yes if value == operand else no
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"step {code:#x} is not known here")


@pytest.mark.parametrize("machine", CALLS)
def test_the_filter_notifies_of_every_exec_and_of_nothing_else(machine: str) -> None:
    program = seccomp.program(machine)
    for arch, calls in CALLS[machine].items():
        numbers = {*range(1000), *(0x40000000 | number for number in range(1000))}
        found = {number for number in numbers if run(program, arch, number) == NOTIFY}
        assert found == {number for number in calls if number in numbers}
        assert {run(program, arch, number) for number in numbers - found} == {ALLOW}


@pytest.mark.parametrize("machine", CALLS)
def test_an_instruction_set_that_is_not_known_cannot_call(machine: str) -> None:
    program = seccomp.program(machine)
    assert run(program, 0x80000016, 11) == KILL


@pytest.mark.parametrize(
    ("arch", "number", "size", "at"),
    [
        (X86_64, 59, 8, False),
        (X86_64, 322, 8, True),
        (X86_64, 0x40000000 | 520, 4, False),
        (X86_64, 0x40000000 | 545, 4, True),
        (I386, 11, 4, False),
        (I386, 358, 4, True),
        (AARCH64, 221, 8, False),
        (AARCH64, 281, 8, True),
        (ARM, 11, 4, False),
        (ARM, 387, 4, True),
    ],
)
def test_a_call_is_read_by_its_own_abi(arch: int, number: int, size: int, at: bool) -> None:
    call = seccomp.SeccompNotification(1, 2, number, arch, [0] * 6)
    assert (seccomp.pointer_size(call), seccomp.is_execveat(call)) == (size, at)
