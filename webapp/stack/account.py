"""The account that PostgreSQL runs under: it refuses to run as root.

A root-owned checkout is often in a folder that no other account can enter (a home folder with mode 0700). PostgreSQL
then gets one capability, to pass through folders, instead of a copy of its data elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from webapp.stack.errors import StackError

FALLBACK_UID = 65534
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
LINUX_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True)
class Account:
    uid: int
    gid: int
    name: str
    capability: int | None = None
    """Kept over the change of account, so that the process can reach its files."""


def choose_account(*paths: Path) -> Account | None:
    """Return the account for PostgreSQL, which must reach `paths`; None if this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        account = Account(entry.pw_uid, entry.pw_gid, name)
        break
    else:
        account = Account(FALLBACK_UID, FALLBACK_UID, str(FALLBACK_UID))
    closed = [path for path in paths if not can_reach(path, account)]
    if not closed:
        return account
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if sys.platform == "linux" and read_capabilities() & (1 << capability):
            return Account(account.uid, account.gid, account.name, capability)
    raise StackError(
        f"PostgreSQL does not run as root, and the account {account.name} cannot reach {closed[0]}.\n"
        "Run Envarium as an ordinary user, or keep the checkout and ENVARIUM_HOME in a folder that others may enter."
    )


def can_reach(path: Path, account: Account) -> bool:
    """Return whether the account may enter every folder above `path` (by mode bits; access control lists are not
    read)."""
    for folder in path.resolve().parents:
        status = folder.stat()
        bit = 0o100 if status.st_uid == account.uid else 0o010 if status.st_gid == account.gid else 0o001
        if not status.st_mode & bit:
            return False
    return True


def read_capabilities() -> int:
    """Return this process's permitted capabilities, as a bit set."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0


_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def switch_to_account(account: Account) -> None:
    """Turn the calling process into `account`. Runs in a child between fork and exec; raises OSError."""
    if account.capability is not None:
        _call_libc("prctl", PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setgid(account.gid)
    os.setuid(account.uid)
    if account.capability is not None:
        bits = 1 << account.capability
        header = struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0)
        _call_libc("capset", header, struct.pack("=6I", bits, bits, bits, 0, 0, 0))
        _call_libc("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, account.capability, 0, 0)


def die_with_parent(parent: int, signal: int) -> None:
    """Ask the kernel to send `signal` to this process when its parent ends, however it ends.

    Must come after a change of account, which clears it. The parent's *thread* counts: spawn from the main one. Does
    nothing if the system has no such call.
    """
    if _libc is None:
        return
    _call_libc("prctl", PR_SET_PDEATHSIG, signal, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _call_libc(name: str, *arguments: int | bytes) -> None:
    wide = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if getattr(_libc, name)(*wide) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
