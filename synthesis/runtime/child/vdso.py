"""Removal of the vDSO's clocks: the kernel's page of functions that read the time without a system call.

A filter of system calls does not see them. The zygote overwrites each of them with one that fails, and unmaps the pages
that hold the time; every child inherits that memory, so a child pays nothing for it. The C library would fall back to a
system call, which `syscalls` refuses.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator

_READ, _WRITE, _EXECUTE, _MONOTONIC = 1, 2, 4, 1
_TAG_STRINGS, _TAG_SYMBOLS = 5, 6
_DYNAMIC, _FUNCTION, _SYMBOL_BYTES = 2, 2, 24
_SILENT = {
    # mov rax, -1; ret. And int3 behind it.
    "x86_64": (bytes.fromhex("48c7c0ffffffffc3"), b"\xcc"),
    # mov x0, -1; ret. And brk 0 behind it.
    "aarch64": (bytes.fromhex("00008092c0035fd6"), bytes.fromhex("000020d4")),
}
_KEPT = (b"sigreturn", b"sgx")
"""Functions of the vDSO that tell no time: the way back from a signal, and a call into an enclave."""


def remove_clocks() -> str:
    """Remove the clocks of this process and of all that it forks; return the reason of a failure, or "".

    Afterwards the virtual clock is the only clock in this process.
    """
    if not sys.platform.startswith("linux"):
        return "not Linux"
    stub, filler = _SILENT.get(os.uname().machine, (b"", b""))
    if not stub:
        return f"not known how on {os.uname().machine}"
    pages = list(_list_clock_mappings())
    for name, start, end in pages:
        if name == "[vdso]" and not _overwrite_functions(start, end - start, stub, filler):
            return "the kernel does not allow changes of its page of clocks"
    libc = _load_libc()
    for name, start, end in pages:
        if name != "[vdso]" and libc.munmap(ctypes.c_void_p(start), ctypes.c_size_t(end - start)) != 0:
            return "the kernel does not give up the pages that hold the time"
    # Without a vDSO the C library asks the kernel, which answers here and refuses in the children.
    if any(name == "[vdso]" for name, _, _ in pages) and _has_working_clock():
        return "the clocks still answer"
    return ""


def _load_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _has_working_clock() -> bool:
    moment = (ctypes.c_long * 2)()
    return bool(_load_libc().clock_gettime(_MONOTONIC, moment) == 0)


def _list_clock_mappings() -> Iterator[tuple[str, int, int]]:
    """Yield (name, start, end) of the mappings that the kernel gives each process for reading the time."""
    with open("/proc/self/maps") as mappings:
        for line in mappings:
            parts = line.split()
            if len(parts) == 6 and (parts[5] == "[vdso]" or parts[5].startswith("[vvar")):
                start, end = (int(part, 16) for part in parts[0].split("-"))
                yield parts[5], start, end


def _overwrite_functions(base: int, size: int, stub: bytes, filler: bytes) -> bool:
    """Overwrite the functions of the vDSO. Return False, with no change, if its pages cannot be made writable."""
    libc, place = _load_libc(), ctypes.c_void_p(base)
    functions = list(_list_functions(ctypes.string_at(base, size)))
    if libc.mprotect(place, ctypes.c_size_t(size), _READ | _WRITE) != 0:
        return False
    for at, length in functions:
        rest = filler * (max(0, length - len(stub)) // len(filler))
        ctypes.memmove(base + at, stub + rest, len(stub) + len(rest))
    return bool(libc.mprotect(place, ctypes.c_size_t(size), _READ | _EXECUTE) == 0)


def _list_functions(image: bytes) -> Iterator[tuple[int, int]]:
    """Yield (offset, bytes) of the functions in the table of dynamic symbols of a vDSO, except for those to be kept."""
    (headers,), (count,) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<H", image, 56)
    tags: dict[int, int] = {}
    for number in range(count):
        kind, _, offset = struct.unpack_from("<IIQ", image, headers + 56 * number)
        while kind == _DYNAMIC:
            tag, value = struct.unpack_from("<QQ", image, offset)
            tags[tag] = value
            offset += 16
            if tag == 0:
                break
    symbols, strings = tags[_TAG_SYMBOLS], tags[_TAG_STRINGS]
    # The linker writes the names right behind the symbols.
    for at in range(symbols, strings - _SYMBOL_BYTES + 1, _SYMBOL_BYTES):
        name, info, _, section, value, size = struct.unpack_from("<IBBHQQ", image, at)
        text = image[strings + name : image.index(b"\0", strings + name)]
        if info & 15 == _FUNCTION and section and size and not any(kept in text for kept in _KEPT):
            yield value, size
