"""Programs, checks and schemas that attack. Each names what may come of it; everything else is a failure.

An outcome is `result`, `error:<kind>`, `lost:<reason>`, `program` (it could not be loaded) or, for checks, `failed`.
"""

# ruff: noqa: E501
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attack:
    """`where` it runs: in a tool, at module level, in the constructor, as a check or as a schema."""

    name: str
    where: str
    code: str
    outcomes: tuple[str, ...]


RAISED = ("error:raised",)
TIME = ("lost:time",)
MEMORY = ("lost:memory",)
DIED = ("lost:died",)
PROTOCOL = ("lost:protocol",)
ANY = ("result", "error:raised", "error:unencodable", "lost:time", "lost:memory", "lost:died", "lost:protocol")
LIBC = "import sys\nctypes = sys.modules['ctypes']\nlibc = ctypes.CDLL(None, use_errno=True)\n"
FRAME = "import os, sys, json\nfd = next(f for f in range(3, 64) if alive(f))\n"
ALL_REFUSED = "assert all(r < 0 or r > 2**62 for r in found), found\nout = 'refused'"

TOOLS = (
    Attack("endless loop", "tool", "while True: pass", TIME),
    Attack("loop in C", "tool", "3 ** (10 ** 9)", (*TIME, *MEMORY)),
    Attack("loop that swallows everything", "tool", "while True:\n    try:\n        while True: pass\n    except BaseException: pass", TIME),
    Attack("regex bomb", "tool", "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')", TIME),
    Attack("wait for oneself", "tool", "import threading\nl = threading.Lock()\nl.acquire()\nl.acquire()", TIME),
    Attack("ignore signals and loop", "tool", "import sys\ns = sys.modules['signal']\nfor n in (14, 15, 24):\n    try: s.signal(n, s.SIG_IGN)\n    except OSError: pass\nwhile True: pass", TIME),
    Attack("wait for a signal", "tool", "import sys\nsys.modules['signal'].signal(24, print)", RAISED),
    Attack("memory in pieces", "tool", "kept = []\nwhile True: kept.append(bytearray(10 ** 6))", MEMORY),
    Attack("memory at once", "tool", "kept = [0] * (10 ** 10)", MEMORY),
    Attack("memory in the state", "tool", "self.big = 'x' * (200 * 2 ** 20)", MEMORY),
    Attack("swallowed memory error", "tool", "kept = []\ntry:\n    while True: kept.append(bytearray(10 ** 6))\nexcept MemoryError: pass\nkept.clear()\nout = 'survived'", ("result", *MEMORY)),
    Attack("doubling dag", "tool", "x = []\nfor _ in range(60): x = [x, x]\nout = x", ("error:unencodable", *TIME, *MEMORY)),
    Attack("huge result", "tool", "out = 'x' * (20 * 2 ** 20)", ("error:too_large", *MEMORY)),
    Attack("huge integer", "tool", "out = 1 << (8 * 2 ** 20)", ("error:unencodable", *MEMORY)),
    Attack("fork", "tool", "import os\nos.fork()", RAISED),
    Attack("vfork and clone by number", "tool", LIBC + "found = [libc.syscall(n, 17, 0, 0, 0, 0) for n in (56, 57, 58, 435)]\n" + ALL_REFUSED, ("result",)),
    Attack("thread", "tool", "import threading\nthreading.Thread(target=print).start()", RAISED),
    Attack("read a file", "tool", "out = open(SECRET).read()", RAISED),
    Attack("read by os.open", "tool", "import os\nout = os.read(os.open(SECRET, 0), 99).decode()", RAISED),
    Attack("read /etc/passwd", "tool", "out = open('/etc/passwd').read()", RAISED),
    Attack("write a file", "tool", "open(TARGET, 'w').write('owned')", RAISED),
    Attack("list a folder", "tool", "import os\nout = os.listdir('/')", RAISED),
    Attack("stat", "tool", "import os\nout = os.stat('/etc/passwd').st_size", RAISED),
    Attack("environment of the host", "tool", "import os\nassert 'SECRET' not in str(dict(os.environ))\nout = open('/proc/1/environ').read()", RAISED),
    Attack("memory of the parent", "tool", "out = open('/proc/1/mem', 'rb').read(10).hex()", RAISED),
    Attack("maps of itself", "tool", "out = open('/proc/self/maps').read()", RAISED),
    Attack("temporary file", "tool", "import sys\nos = sys.modules['os']\nout = os.memfd_create('x')", RAISED),
    Attack("symlink, mkdir, unlink, chmod", "tool", "import os\nfor f in (lambda: os.symlink('/etc', TARGET), lambda: os.mkdir(TARGET), lambda: os.unlink(SECRET), lambda: os.chmod(SECRET, 0o777), lambda: os.rename(SECRET, TARGET)):\n    try: f()\n    except OSError: continue\n    raise SystemError('worked')\nout = 'refused'", ("result",)),
    Attack("connect by tcp", "tool", "import sys\ns = sys.modules['socket']\ns.create_connection(('127.0.0.1', PORT), 1)", RAISED),
    Attack("connect by unix socket", "tool", "import sys\ns = sys.modules['_socket']\nc = s.socket(1, 1)\nc.connect(UNIX)", RAISED),
    Attack("resolve a name", "tool", "import sys\nout = str(sys.modules['socket'].getaddrinfo('localhost', 80))", RAISED),
    Attack("raw socket calls", "tool", LIBC + "found = [libc.socket(d, t, 0) for d in (1, 2, 10, 16, 17) for t in (1, 2, 3)] + [libc.socketpair(1, 1, 0, (ctypes.c_int * 2)())]\n" + ALL_REFUSED, ("result",)),
    Attack("run a program", "tool", "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo owned > ' + TARGET])", RAISED),
    Attack("os.system", "tool", "import os\nout = os.system('echo owned > ' + TARGET)\nassert out != 0", ("result",)),
    Attack("kill everything", "tool", "import os\nos.kill(-1, 9)", RAISED),
    Attack("kill the parent", "tool", LIBC + "found = [libc.kill(p, 9) for p in (1, libc.getppid(), 0, CANARY)] + [libc.syscall(n, CANARY, CANARY, 9) for n in (200, 234, 129, 424)]\n" + ALL_REFUSED, ("result",)),
    Attack("signal through fcntl", "tool", LIBC + "found = [libc.fcntl(f, 8, CANARY) for f in range(8)]\n" + ALL_REFUSED, ("result",)),
    Attack("trace and read a neighbour", "tool", LIBC + "found = [libc.ptrace(16, CANARY, 0, 0), libc.syscall(310, CANARY, 0, 0, 0, 0, 0), libc.syscall(311, CANARY, 0, 0, 0, 0, 0), libc.syscall(434, CANARY, 0), libc.syscall(438, 3, 3, 0)]\n" + ALL_REFUSED, ("result",)),
    Attack("limits of a neighbour", "tool", LIBC + "found = [libc.syscall(302, CANARY, 0, 0, 0), libc.setpriority(0, CANARY, 19)]\n" + ALL_REFUSED, ("result",)),
    Attack("raise own limits", "tool", "import sys\nr = sys.modules['resource']\nr.setrlimit(r.RLIMIT_CPU, (999, 999))", RAISED),
    Attack("become root", "tool", LIBC + "found = [libc.setuid(0), libc.setresuid(0, 0, 0), libc.setgid(0), libc.unshare(0x10000000), libc.unshare(0x20000), libc.chroot(b'/'), libc.prctl(22, 0), libc.mount(b'x', b'/', b'tmpfs', 0, 0)]\n" + ALL_REFUSED, ("result",)),
    Attack("rare system calls", "tool", LIBC + "found = [libc.syscall(n, 1, 0, 0, 0, 0) for n in (425, 321, 323, 298, 250, 248, 165, 175, 246, 272, 308, 317, 157, 135, 42, 49, 319, 282, 283, 284, 22, 32, 33, 46, 47, 53, 41, 59, 322)]\n" + ALL_REFUSED, ("result",)),
    Attack("calls of the x32 table", "tool", LIBC + "found = [libc.syscall(0x40000000 + n, b'/etc/passwd', 0, 0) for n in (0, 2, 41, 57, 59)]\n" + ALL_REFUSED, ("result",)),
    Attack("executable memory", "tool", LIBC + "libc.mmap.restype = ctypes.c_long\nfound = [libc.mmap(None, 4096, 7, 0x22, -1, 0), libc.mmap(None, 4096, 3, 0x21, -1, 0)]\na = libc.mmap(None, 4096, 3, 0x22, -1, 0)\nfound.append(libc.mprotect(ctypes.c_void_p(a), 4096, 5))\n" + ALL_REFUSED, ("result",)),
    Attack("segmentation fault", "tool", LIBC + "ctypes.string_at(0)", DIED),
    Attack("abort", "tool", LIBC + "libc.abort()", DIED),
    Attack("forged reply", "tool", FRAME + "os.write(fd, b'\\x01' + json.dumps({'id': 2, 'ok': True, 'r': 'forged', 'us': 1, 'p': []}).encode())", ("result", *PROTOCOL)),
    Attack("forged reply with another number", "tool", FRAME + "os.write(fd, b'\\x01' + json.dumps({'id': 99, 'ok': True, 'r': 'forged', 'p': []}).encode())", PROTOCOL),
    Attack("forged shapes", "tool", FRAME + "os.write(fd, b'\\x01' + json.dumps({'id': 2, 'ok': True, 'r': 1, 'us': 1, 'p': [{'op': 'move', 'from': '/a', 'path': '/b'}]}).encode())", PROTOCOL),
    Attack("forged not a number", "tool", FRAME + "os.write(fd, b'\\x01{\"id\":2,\"ok\":true,\"r\":NaN,\"us\":1,\"p\":[]}')", PROTOCOL),
    Attack("forged surrogate", "tool", FRAME + "os.write(fd, b'\\x01{\"id\":2,\"ok\":true,\"r\":\"\\\\ud800\",\"us\":1,\"p\":[]}')", PROTOCOL),
    Attack("deep frame", "tool", FRAME + "os.write(fd, b'\\x01' + b'[' * 20000 + b']' * 20000)", PROTOCOL),
    Attack("endless frame", "tool", FRAME + "while True: os.write(fd, b'\\x00' + b'x' * 50000)", (*PROTOCOL, *TIME)),
    Attack("trickling frame", "tool", FRAME + "while True:\n    os.write(fd, b'\\x00x')", (*PROTOCOL, *TIME)),
    Attack("pickle for a frame", "tool", FRAME + "os.write(fd, b\"\\x01\\x80\\x04\\x95cposix\\nsystem\\n(S'id'\\ntR.\")", PROTOCOL),
    Attack("empty datagram", "tool", FRAME + "libc = sys.modules['ctypes'].CDLL(None)\nlibc.send(fd, b'', 0, 0)", ("result", *DIED, *PROTOCOL)),
    Attack("write to every descriptor", "tool", "import os\nfor f in range(256):\n    try: os.write(f, b'\\x01{}')\n    except OSError: pass", (*PROTOCOL, "result")),
    Attack("close every descriptor", "tool", "import os\nos.closerange(0, 256)", DIED),
    Attack("pass descriptors", "tool", "import sys\ns = sys.modules['socket']\ns.send_fds(s.socket(fileno=3), [b'x'], [0])", (*RAISED, *DIED)),
    Attack("recursion", "tool", "def f(): return f()\nf()", RAISED),
    Attack("recursion without limit", "tool", "import sys\nsys.setrecursionlimit(10 ** 8)\ndef f(n): return [f(n + 1)]\nf(0)", (*DIED, *MEMORY, *TIME, *RAISED)),
    Attack("recursion in C", "tool", "import sys\nsys.setrecursionlimit(10 ** 8)\nx = []\nfor _ in range(10 ** 6): x = [x]\nout = repr(x)[:5]", (*DIED, *RAISED, *MEMORY, *TIME)),
    Attack("deep result", "tool", "x = []\nfor _ in range(5000): x = [x]\nout = x", ("error:unencodable",)),
    Attack("cyclic result", "tool", "x = []\nx.append(x)\nout = x", ("error:unencodable",)),
    Attack("cyclic state", "tool", "self.me = {}\nself.me['me'] = self.me", ("error:unencodable",)),
    Attack("builtins patched", "tool", "import builtins\nbuiltins.len = lambda x: 42\nbuiltins.isinstance = builtins.type = None", ANY),
    Attack("json and marshal patched", "tool", "import json, sys\njson.dumps = json.loads = json.JSONEncoder.encode = lambda *a, **k: '\"owned\"'\nsys.modules['marshal'].dumps = lambda *a: b''", ANY),
    Attack("frames walked", "tool", "import sys\nf = sys._getframe()\nwhile f.f_back: f = f.f_back\nf.f_globals['wire'].send = None\nout = sorted(f.f_globals)[:1]", ANY),
    Attack("worker patched through gc", "tool", "import sys\ngc = sys.modules['gc']\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Worker': o.cap = 10 ** 12; o.depth = 10 ** 6\nout = 'x' * (20 * 2 ** 20)", ("error:too_large", *PROTOCOL, *MEMORY, "result")),
    Attack("os._exit", "tool", "import os\nos._exit(0)", DIED),
    Attack("sys.exit", "tool", "import sys\nsys.exit(3)", RAISED),
    Attack("keyboard interrupt", "tool", "raise KeyboardInterrupt", RAISED),
    Attack("exit hooks", "tool", "import sys\nimport weakref\nweakref.finalize(self, print, 'x')\nsys.exit()", RAISED),
    Attack("exception whose text loops", "tool", "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E", TIME),
    Attack("exception whose text raises", "tool", "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", RAISED),
    Attack("exception without a text", "tool", "class E(Exception):\n    def __str__(self): return 5\nraise E", RAISED),
    Attack("destructor that raises", "tool", "class D:\n    def __del__(self): raise SystemExit\nD()\nout = 1", ("result",)),
    Attack("result with hostile attributes", "tool", "class R:\n    @property\n    def __dict__(self): raise SystemExit\n    def __getattr__(self, n): raise KeyboardInterrupt\nout = R()", ("error:unencodable", "result")),
    Attack("result that lies about its type", "tool", "class R(dict):\n    __class__ = int\n    def items(self): raise SystemExit\nout = R(a=1)", ("error:unencodable", "result")),
    Attack("state whose hash exits", "tool", "class K:\n    def __hash__(self): return 1\n    def __eq__(self, o): raise SystemExit\nself.k = {K(): 1, 'a': 2}", ANY),
    Attack("print a lot", "tool", "for _ in range(20000): print('x' * 100)\nout = 1", ("result",)),
    Attack("ask for input", "tool", "out = input()", RAISED),
)  # fmt: skip
CLOCKS = (
    Attack("clocks of the C library", "tool", LIBC + "b = (ctypes.c_long * 32)()\nfound = [libc.clock_gettime(n, b) for n in range(12)] + [libc.clock_getres(1, b), libc.gettimeofday(b, 0), libc.time(0), libc.times(b) - 1, libc.getrusage(0, b), libc.clock()]\nassert not any(b), list(b)\n" + ALL_REFUSED, ("result",)),
    Attack("clocks by number", "tool", LIBC + "b = (ctypes.c_long * 32)()\nfound = [libc.syscall(n, a, b, 0, 0) for n in (5, 35, 36, 38, 96, 97, 98, 100, 201, 228, 229, 230, 7, 271, 13, 283, 286, 287, 222, 223) for a in (0, 1)]\nassert not any(b), list(b)\n" + ALL_REFUSED, ("result",)),
    Attack("page of the kernel's clocks", "tool", LIBC + "libc.getauxval.restype = ctypes.c_ulong\nout = ctypes.string_at(libc.getauxval(33) - 0x6000, 4096).hex()", DIED),
    Attack("a fresh module of clocks", "tool", "import sys\nimp, spec = sys.modules['_imp'], sys.modules['importlib._bootstrap'].ModuleSpec\nm = imp.create_builtin(spec('time', None))\nimp.exec_builtin(m)\nfor f in (m.time, m.time_ns, m.monotonic, m.perf_counter, m.thread_time, lambda: m.clock_gettime(5), lambda: m.sleep(1)):\n    try: f()\n    except OSError: continue\n    raise SystemError('worked')\nbefore = m.process_time()\nassert sum(range(10 ** 6)) and m.process_time() == before and m.localtime().tm_year < 1971\nout = 'refused'", ("result",)),
    Attack("clocks that other modules kept", "tool", "import logging, queue, sys, threading, time\nfor name, module in list(sys.modules.items()):\n    for value in list(vars(module).values()):\n        if type(value).__name__ == 'builtin_function_or_method' and value.__module__ == 'time' and value.__name__ in ('time', 'monotonic', 'perf_counter', 'perf_counter_ns', 'time_ns', 'sleep'):\n            raise SystemError(name)\nassert threading._time() < 60 and queue.time() < 60 and abs(logging._startTime - time.time()) < 60\nout = 'refused'", ("result",)),
    Attack("waits with a time limit", "tool", LIBC + "import threading\nlock = threading.Lock()\nlock.acquire()\nassert not lock.acquire(timeout=30)\nword, limit = ctypes.c_int(0), (ctypes.c_long * 2)(30, 0)\nassert libc.syscall(202, ctypes.byref(word), 0, 0, limit, 0, 0) == -1 and ctypes.get_errno() == 110\nout = 'refused'", ("result",)),
    Attack("memory, load and processors of the host", "tool", LIBC + "b = (ctypes.c_long * 64)()\nfound = [libc.sysinfo(b), libc.syscall(99, b), libc.getcpu(b, b), libc.sched_getcpu(), libc.sched_getaffinity(0, 128, b), libc.syscall(204, 0, 128, b), libc.syscall(309, b, b, 0), libc.getloadavg((ctypes.c_double * 3)(), 3)]\nassert not any(b), list(b)\n" + ALL_REFUSED, ("result",)),
    Attack("name of the host", "tool", LIBC + "import os\nb = ctypes.create_string_buffer(512)\nfound = [libc.uname(b), libc.gethostname(b, 512), libc.syscall(63, b)]\nassert NODE not in (os.uname().nodename, sys.modules['socket'].gethostname(), b.value.decode())\nassert not b.raw.strip(b'\\0')\n" + ALL_REFUSED, ("result",)),
    Attack("numbers that count processes", "tool", LIBC + "assert not any((libc.getpid(), libc.getppid(), libc.getuid(), libc.getegid(), libc.syscall(186)))\nfound = [libc.syscall(218, 0), libc.syscall(334, 0, 0, 0, 0)]\n" + ALL_REFUSED, ("result",)),
    Attack("randomness of the kernel", "tool", LIBC + "b = ctypes.create_string_buffer(16)\nfound = [libc.getrandom(b, 16, 0), libc.getentropy(b, 16), libc.syscall(318, b, 16, 0)]\nassert not b.raw.strip(b'\\0')\n" + ALL_REFUSED, ("result",)),
)  # fmt: skip
LOADING = (
    Attack("module loops", "module", "while True: pass", TIME),
    Attack("module forks", "module", "import os\nwhile True: os.fork()", ("program",)),
    Attack("module exits", "module", "import os\nos._exit(0)", DIED),
    Attack("module raises SystemExit", "module", "raise SystemExit", ("program",)),
    Attack("module takes all memory", "module", "kept = []\nwhile True: kept.append(bytearray(10 ** 6))", MEMORY),
    Attack("module closes descriptors", "module", "import os\nos.closerange(0, 256)", DIED),
    Attack("module patches built-ins", "module", "import builtins\nbuiltins.len = builtins.getattr = builtins.dict = None", ("program", "ready", *DIED, *PROTOCOL)),
    Attack("module forges the reply", "module", "import os\nfor f in range(3, 64):\n    try: os.write(f, b'\\x01{\"id\":1,\"ok\":true}')\n    except OSError: pass", ("ready", "program", *PROTOCOL)),
    Attack("module imports the network", "module", "import socket", ("program",)),
    Attack("syntax error", "module", "def", ("program",)),
    Attack("nested too deep to compile", "module", "x = " + "(" * 3000 + ")" * 3000, ("program", *DIED, *MEMORY)),
    Attack("text that is no text", "module", "x = '\\0'\n\0", ("program",)),
    Attack("metaclass that loops", "module", "class M(type):\n    def __call__(cls, *a):\n        while True: pass\nclass Other(metaclass=M): pass\nOther()", TIME),
    Attack("constructor exits", "init", "raise SystemExit", ("program",)),
    Attack("constructor loops", "init", "while True: pass", TIME),
    Attack("constructor makes a cycle", "init", "self.a = []\nself.a.append(self.a)", ("program",)),
    Attack("attribute hooks exit", "init", "type(self).__setattr__ = lambda s, n, v: sys_exit()", ("program", "ready")),
)  # fmt: skip
CHECKS = (
    Attack("check loops", "check", "while True: pass", ("failed",)),
    Attack("check exits", "check", "import os\nos._exit(0)", ("failed",)),
    Attack("check takes all memory", "check", "kept = [0] * (10 ** 10)", ("failed",)),
    Attack("check patches built-ins", "check", "import builtins\nbuiltins.True_ = True\nbuiltins.len = lambda x: 10 ** 6\nreturn False", ("failed",)),
    Attack("check forges a verdict of another shape", "check", "import os\nfor f in range(3, 64):\n    try: os.write(f, b'\\x01{\"id\":0,\"n\":0,\"v\":[1,0,0]}')\n    except OSError: pass\nreturn False", ("failed",)),
    Attack("check returns a truthy object", "check", "return [1]", ("failed",)),
    Attack("check returns one", "check", "return 1", ("failed",)),
    Attack("check reads a file", "check", "return 'root' in open('/etc/passwd').read()", ("failed",)),
    Attack("check returns an object that lies", "check", "class L:\n    __class__ = bool\n    def __bool__(self): return True\n    def __eq__(self, o): return True\nreturn L()", ("failed",)),
    Attack("check with a bad tag of state", "check", "initial_state.clear()\nfinal_state.clear()\nreturn False", ("failed",)),
)  # fmt: skip
SCHEMAS = (
    Attack("pattern bomb", "schema", '{"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}', ("result",)),
    Attack("reference to itself", "schema", '{"$ref": "#"}', ("result",)),
    Attack("references in a ring", "schema", '{"allOf": [{"$ref": "#/allOf/0"}, {"$ref": "#"}]}', ("result",)),
    Attack("branches without end", "schema", '{"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"$ref": "#"}]}', ("result", "error:bad_arguments")),
    Attack("remote reference", "schema", '{"$ref": "http://127.0.0.1:PORT/x"}', ("result",)),
    Attack("file reference", "schema", '{"$ref": "file:///etc/passwd"}', ("result",)),
    Attack("nonsense", "schema", '{"type": 5, "required": "a", "properties": [1], "enum": {}, "minimum": "x", "items": 3, "pattern": 7}', ("result",)),
    Attack("infinite bound", "schema", '{"properties": {"a": {"minLength": 1e999, "multipleOf": 0, "maximum": null}}}', ("program",)),
    Attack("pattern that is none", "schema", '{"properties": {"a": {"pattern": "(((("}}}', ("result",)),
    Attack("pattern slow to compile", "schema", '{"properties": {"a": {"pattern": "((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}}}', ("result",)),
)  # fmt: skip
ATTACKS = (*TOOLS, *CLOCKS, *LOADING, *CHECKS, *SCHEMAS)
