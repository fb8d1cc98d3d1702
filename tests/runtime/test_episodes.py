"""What an episode means: construction, calls, observations, patches, determinism, forking."""

# ruff: noqa: RUF005
from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from synthesis.contracts import Limits, Program, Tool
from synthesis.errors import (
    InputError,
    ProgramEnded,
    ProgramError,
    ReplayMismatch,
    SandboxLost,
    SandboxUnavailable,
    StateError,
)
from synthesis.runtime import Sandbox, apply_patch, get_default_sandbox, hash_state
from tests.runtime.programs import act, body, program

SHOP = '''
import random, secrets, time, uuid, datetime as dt
from datetime import datetime, date, timedelta
from typing import Dict, Optional

class Shop:
    """A shop."""
    def __init__(self, init_config: dict):
        self.orders: Dict[str, dict] = {}
        self.tags = set()
        self.counts = {1: 0}
        self.init_config = init_config

    def order(self, item: str, amount: int = 1) -> dict:
        """Order something."""
        key = str(uuid.uuid4())
        self.orders[key] = {"item": item, "amount": amount, "at": datetime.now().isoformat(), "t": time.time(),
            "r": random.random(), "s": secrets.token_hex(4), "u": str(uuid.uuid1()), "x": random.Random().random()}
        self.tags.add(item)
        self.counts[1] += amount
        return {"success": True, "orders": self.orders}

    def listed(self) -> list:
        """All tags, in the order of the set."""
        return [str(tag) for tag in self.tags]

    def broken(self):
        """Change something, then raise."""
        self.counts[1] = -1
        raise KeyError("gone")
'''


@pytest.fixture(scope="module")
def shop() -> Program:
    return program(SHOP)


def test_calls_change_state_and_patches_tell_how(sandbox: Sandbox, shop: Program) -> None:
    with sandbox.reset(shop, {"orders": {"o1": {"item": "tea"}}}) as episode:
        state = episode.state()
        assert state["orders"] == {"o1": {"item": "tea"}}
        assert state["counts"] == {"$dict": [[1, 0]]}
        for tool, args in [
            ("order", {"item": "a"}),
            ("listed", {}),
            ("broken", {}),
            ("order", {"item": "b", "amount": 3}),
        ]:
            result = episode.call(tool, args)
            assert (result.patch == []) == (tool == "listed")
            state = apply_patch(state, result.patch)
            assert state == episode.state()
        assert hash_state(state) == episode.state_hash()


def test_a_tool_that_raises_is_an_observation_with_its_patch(sandbox: Sandbox, shop: Program) -> None:
    with sandbox.reset(shop, {}) as episode:
        result = episode.call("broken", {})
        assert not result.ok
        assert result.error is not None
        assert (result.error.kind, result.error.type, result.error.message) == ("raised", "KeyError", "'gone'")
        assert result.patch == [{"op": "replace", "path": "/counts/$dict/0/1", "value": -1}]
        assert episode.call("listed", {}).ok


@pytest.mark.parametrize(
    ("tool", "args", "kind"),
    [("nothing", {}, "unknown_tool"), ("__init__", {"init_config": {}}, "unknown_tool"), ("order", {}, "bad_arguments")]
    + [("order", {"item": 5}, "bad_arguments"), ("order", {"item": "a", "zz": 1}, "bad_arguments")]
    + [("order", {"item": "a", "amount": "3"}, "bad_arguments"), ("order", {"item": object()}, "bad_arguments")],
)
def test_calls_that_cannot_be_made(sandbox: Sandbox, shop: Program, tool: str, args: Any, kind: str) -> None:
    with sandbox.reset(shop, {}) as episode:
        before = episode.state_hash()
        result = episode.call(tool, args)
        assert not result.ok
        assert result.error is not None
        assert result.error.kind == kind
        assert result.patch == []
        assert episode.state_hash() == before


def test_source_validation_makes_the_call_as_it_was(sandbox: Sandbox, shop: Program) -> None:
    with sandbox.reset(shop, {}, validation="source") as episode:
        wrong_type = episode.call("order", {"item": 5})
        missing = episode.call("order", {})
        assert wrong_type.ok
        assert missing.error is not None
        assert (missing.error.kind, missing.error.type) == ("bad_arguments", "TypeError")


def test_a_type_error_inside_a_tool_is_the_tools(sandbox: Sandbox) -> None:
    error = act(sandbox, "return 1 + 'a'").error
    assert (error.kind, error.type) == ("raised", "TypeError")


def test_same_seed_and_calls_give_the_same_bytes(sandbox: Sandbox, shop: Program) -> None:
    def run(seed: int) -> Any:
        with sandbox.reset(shop, {}, seed=seed) as episode:
            said = [episode.call("order", {"item": f"i{n}"}).result for n in range(5)]
            return said, episode.call("listed", {}).result, episode.state(), episode.state_hash()

    assert run(1) == run(1)
    assert run(1)[3] != run(2)[3]


def test_another_sandbox_gives_the_same_bytes(sandbox: Sandbox, shop: Program) -> None:
    other = Sandbox(mode="no_namespaces")
    hashes = []
    for one in (sandbox, other):
        with one.reset(shop, {}) as episode:
            for n in range(5):
                episode.call("order", {"item": f"i{n}"})
            hashes.append((episode.state_hash(), tuple(episode.call("listed", {}).result)))
    other.close()
    assert hashes[0] == hashes[1]


CLOCK = (
    "import copy, pickle, time, datetime as m",
    "from datetime import datetime, date, timezone, timedelta",
    "a = datetime.now(); time.sleep(3600); b = datetime.now(timezone.utc)",
    "assert type(a) is datetime and isinstance(a, date) and type(date.today()) is date",
    "assert copy.deepcopy(a) == a == pickle.loads(pickle.dumps(a)) and type(a + timedelta(1)) is datetime",
    "assert datetime.strptime('2025-02-03', '%Y-%m-%d') == datetime(2025, 2, 3)",
    "assert time.strftime('%Y-%m-%d') == date.today().isoformat() == str(datetime.utcnow())[:10]",
    "assert time.localtime().tm_year == time.gmtime().tm_year == datetime.today().year == 2031",
    "assert time.monotonic() < time.monotonic() and time.perf_counter_ns() < time.perf_counter_ns()",
    "return [str(a), str(b), time.time(), time.ctime()]",
)


def test_the_clock_is_virtual_and_starts_at_now(sandbox: Sandbox) -> None:
    result = act(sandbox, *CLOCK, now="2031-05-06T07:08:09+00:00")
    assert result.ok, result.error
    first, second, moment, text = result.result
    assert first == "2031-05-06 07:08:10.000001"
    assert second == "2031-05-06 08:08:10.000002+00:00"
    assert text.startswith("Tue May  6 08:08:10 2031")
    assert moment == pytest.approx(datetime(2031, 5, 6, 8, 8, 10, tzinfo=UTC).timestamp(), abs=0.001)
    assert act(sandbox, *CLOCK, now="2031-05-06T07:08:09+00:00").result == result.result


def test_module_level_values_follow_the_episode(sandbox: Sandbox) -> None:
    made = body(
        "return [START, TOKEN]",
        head="import uuid, datetime\nSTART = str(datetime.datetime.now())\nTOKEN = str(uuid.uuid4())",
    )
    seen = []
    for seed, now in ((1, "2030-01-01T00:00:00"), (2, "2040-01-01T00:00:00"), (1, "2030-01-01T00:00:00")):
        with sandbox.reset(made, None, seed=seed, now=now) as episode:
            seen.append(episode.call("act", {}).result)
    assert seen[0] == seen[2]
    assert seen[0] != seen[1]
    assert seen[1][0].startswith("2040-01-01")


@pytest.mark.parametrize(
    "source",
    [
        "class Env:\n    def __init__(self):\n        self.a = {}\n",
        "class Env:\n    def __init__(self, config):\n        self.a = {}\n        self.config = config\n",
        "class Env:\n    def __init__(self, init_config=None):\n        self.a = (init_config or {}).get('a', {})\n",
        "class Env:\n    def __init__(self, state):\n        self.a = dict(state['a']) if state else {}\n",
        "class Env:\n    def __init__(self, a=None):\n        self.a = a or {}\n",
        "class Env:\n    def __init__(self, **parts):\n        self.__dict__.update(parts)\n",
        "class Env:\n    a = None\n",
        "class Env:\n    __slots__ = ('a',)\n",
    ],
)
def test_every_way_to_construct_holds_the_initial_state(sandbox: Sandbox, source: str) -> None:
    made = program(source + "    def get(self):\n        return self.a\n")
    with sandbox.reset(made, {"a": {"k": [1]}}) as episode:
        assert episode.call("get", {}).result == {"k": [1]}
        assert episode.state()["a"] == {"k": [1]}


def test_what_a_constructor_makes_of_the_state_is_kept(sandbox: Sandbox) -> None:
    source = "class Env:\n    def __init__(self, data):\n        self.a = {int(k): v for k, v in data['a'].items()}\n"
    with sandbox.reset(program(source + "    def get(self):\n        return 1\n"), {"a": {"1": 2}}) as episode:
        assert episode.state()["a"] == {"$dict": [[1, 2]]}


def test_state_made_of_an_episode_can_be_reset(sandbox: Sandbox, shop: Program) -> None:
    with sandbox.reset(shop, {"orders": {}}) as episode:
        episode.call("order", {"item": "x"})
        state = episode.state()
    with sandbox.reset(shop, state) as again:
        assert again.state() == state


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Other:\n    def a(self): pass", "no class Env"),
        ("raise ValueError('at load')", "ValueError: at load"),
        ("class Env:\n    def __init__(self, a): raise RuntimeError('in init')", "RuntimeError: in init"),
        ("import requests", "requests"),
        ("class Env(", "does not compile"),
    ],
)
def test_programs_that_do_not_load_say_why(sandbox: Sandbox, source: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        sandbox.reset(Program(source=source, class_name="Env", tools=(Tool(name="a"),)), {})


def test_bad_input_is_told_apart(sandbox: Sandbox, shop: Program) -> None:
    with pytest.raises(StateError):
        sandbox.reset(shop, {"a": {"$nothing": 1}})
    with pytest.raises(InputError):
        sandbox.reset(shop, {}, now="yesterday")
    with pytest.raises(SandboxUnavailable):
        Sandbox(mode="wide open")


def test_aliases_are_seen_when_asked_for(sandbox: Sandbox) -> None:
    made = body("return {'data': self.items}", **{"copied(self)": "return {'data': dict(self.items)}"})
    with sandbox.reset(made, {"items": {"a": 1}}, observe_aliases=True) as episode:
        assert episode.call("act", {}).aliases_state is True
        assert episode.call("copied", {}).aliases_state is False
    with sandbox.reset(made, {}) as episode:
        assert episode.call("act", {}).aliases_state is None


def test_fork_reaches_the_same_state_and_goes_its_own_way(sandbox: Sandbox, shop: Program) -> None:
    with sandbox.reset(shop, {}) as episode:
        episode.call("order", {"item": "a"})
        with episode.fork() as other:
            assert other.state() == episode.state()
            other.call("order", {"item": "b"})
            assert other.state_hash() != episode.state_hash()
            assert other.fork().state_hash() == other.state_hash()


def test_fork_refuses_what_does_not_repeat(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program is known that does not repeat: here it begins with another seed."""
    made = body("self.items['at'] = random.random()", head="import random")
    with sandbox.reset(made, {}) as episode:
        episode.call("act", {})
        other = sandbox.reset(made, {}, seed=1)
        monkeypatch.setattr(episode, "_remake", lambda: other._link)
        with pytest.raises(ReplayMismatch):
            episode.fork()


def test_a_closed_episode_is_lost_and_says_so(sandbox: Sandbox, shop: Program) -> None:
    episode = sandbox.reset(shop, {})
    assert episode.alive
    episode.close()
    episode.close()
    assert not episode.alive
    with pytest.raises(SandboxLost) as caught:
        episode.call("listed", {})
    assert caught.value.reason == "closed"


def test_processor_time_is_bounded(sandbox: Sandbox) -> None:
    small = Sandbox(limits=Limits(cpu_seconds=1, call_seconds=10))
    with small.reset(body("while True: pass"), {}) as episode, pytest.raises(ProgramEnded) as caught:
        episode.call("act", {})
    assert caught.value.reason == "time"
    small.close()


def test_depth_of_results_is_bounded(sandbox: Sandbox) -> None:
    fine = act(sandbox, "x = 1", "for _ in range(90): x = [x]", "return x")
    deep = act(sandbox, "x = 1", "for _ in range(110): x = [x]", "return x")
    assert fine.ok
    assert deep.error.kind == "unencodable"


def test_large_states_and_results_travel_whole(sandbox: Sandbox) -> None:
    state = {"items": {str(n): "x" * 1_000 for n in range(3_000)}}
    with sandbox.reset(body("return self.items"), state) as episode:
        assert episode.call("act", {}).result == state["items"]
        assert episode.state()["items"] == state["items"]


def test_many_threads_share_a_sandbox(sandbox: Sandbox, shop: Program) -> None:
    hashes: list[str] = []

    def run() -> None:
        for _ in range(5):
            with sandbox.reset(shop, {}) as episode:
                episode.call("order", {"item": "a"})
                hashes.append(episode.state_hash())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(hashes) == 40
    assert len(set(hashes)) == 1


def test_a_forked_process_gets_a_sandbox_of_its_own(shop: Program) -> None:
    ours = get_default_sandbox()
    episode = ours.reset(shop, {})
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            theirs = get_default_sandbox()
            with theirs.reset(shop, {}) as other:
                code = 0 if theirs is not ours and other.call("listed", {}).ok and not episode.alive else 2
            theirs.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert episode.call("listed", {}).ok
    episode.close()


def test_nothing_is_left_open(sandbox: Sandbox, shop: Program) -> None:
    def run() -> None:
        for _ in range(30):
            with sandbox.reset(shop, {}) as episode:
                episode.call("listed", {})

    run()
    before = len(os.listdir("/proc/self/fd"))
    run()
    assert len(os.listdir("/proc/self/fd")) <= before + 2
