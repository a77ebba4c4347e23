"""Compiles a seccomp profile in Docker's JSON form (first argument) to the cBPF that bubblewrap loads (second)."""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

import pyseccomp as seccomp

OPERATORS = {"SCMP_CMP_EQ": seccomp.EQ, "SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ}
ENOSYS = 38


def action_of(rule: dict[str, Any], default_errno: int) -> int:
    """Returns the action of a rule. Profiles use two actions, so any other one is an error."""
    if rule["action"] == "SCMP_ACT_ALLOW":
        return seccomp.ALLOW
    if rule["action"] == "SCMP_ACT_ERRNO":
        return seccomp.ERRNO(rule.get("errnoRet", default_errno))
    raise ValueError(f"unknown action {rule['action']}")


def arguments_of(rule: dict[str, Any]) -> list[seccomp.Arg]:
    """Returns the comparisons of a rule, all of which have to match. The value of MASKED_EQ is the mask."""
    compared = []
    for given in rule.get("args", []):
        operator = OPERATORS[given["op"]]
        if operator == seccomp.MASKED_EQ:
            compared.append(seccomp.Arg(given["index"], operator, given["value"], given.get("valueTwo", 0)))
        else:
            compared.append(seccomp.Arg(given["index"], operator, given["value"]))
    return compared


def main(profile_path: str, program_path: str) -> None:
    """Compiles the profile. Calls that this libseccomp or this machine does not know stay denied."""
    with open(profile_path, encoding="utf-8") as file:
        profile = json.load(file)
    default_errno = profile.get("defaultErrnoRet", 1)
    program = seccomp.SyscallFilter(seccomp.ERRNO(default_errno))
    # Calls of another architecture (32 bit) fail as if they did not exist, instead of killing the caller.
    program.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.ERRNO(ENOSYS))
    allowed = 0
    for rule in profile["syscalls"]:
        action = action_of(rule, default_errno)
        for name in rule["names"]:
            try:
                number = seccomp.resolve_syscall(seccomp.system_arch(), name)
            except ValueError:
                continue
            if number < 0:
                continue
            program.add_rule(action, name, *arguments_of(rule))
            allowed += action == seccomp.ALLOW
    if allowed < 200 and platform.machine() == "x86_64":
        raise SystemExit(f"only {allowed} calls of {profile_path} are known here: libseccomp is too old")
    with open(program_path, "wb") as file:
        program.export_bpf(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
