"""Tasks of the demo: drawn from a seed, with checks, the reference that solves them and the errors of a careless
teacher.

Four small environments, written for this project. They differ in difficulty and in how rewards are spread: `lamps`
needs no lookup and pays for each of two lamps; `depot` needs a city that must be looked up, all or nothing; `clinic`
pays for the right patient and the right day; `library` depends on the result of a lookup. The careless teacher has
habits: the first city, the first day, always extended. Random guesses would be noise on which a small model wastes its
steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

from synthesis.contracts import (
    Allowance,
    CheckRecord,
    ChecksVerifier,
    Frame,
    Mark,
    Program,
    Reference,
    ReferenceCall,
    Tool,
    ToolKind,
)
from synthesis.rollout import RolloutTask, format_documentation
from synthesis.runtime import derive_working_schema, encode_state, outline_program

ITEMS = ("bolts", "nuts", "screws", "nails", "hinges", "gears", "springs", "rivets", "pipes", "valves")
CITIES = ("Oslo", "Rome", "Lima", "Cairo")
DAYS = ("Monday", "Tuesday", "Thursday", "Friday")
ROOMS = ("kitchen", "hall", "study", "attic", "cellar", "porch", "garage", "bath")
TITLES = ("Atlas", "Poems", "Birds", "Bread", "Rivers", "Clocks", "Stars", "Masks")
DOCTORS = ("Roth", "Sato", "Diaz", "Khan")
PATIENTS = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana")
DONE = "Done."


@dataclass(frozen=True)
class UnnamedTask:
    """A task before it has a name. `careless` is the reference of a teacher who acts without looking, or stops too
    early.
    """

    instruction: str
    initial: dict[str, Any]
    checks: tuple[tuple[str, Mark], ...]
    reference: Reference
    careless: Reference
    frame: Frame


@dataclass(frozen=True)
class DemoTask:
    """A task of an environment, ready to be attempted."""

    environment: str
    rollout: RolloutTask
    reference: Reference
    careless: Reference


def _draw_lamps_task(dice: random.Random) -> UnnamedTask:
    rooms = dice.sample(ROOMS, 4)
    first, second = rooms[:2]
    on = dice.random() < 0.5
    lit = {room: dice.random() < 0.5 for room in rooms} | {first: not on, second: not on}
    calls = [_build_call("switch", room=room, on=on) for room in (first, second)]
    other_lamps = {room: lit[room] for room in rooms[2:]}
    return UnnamedTask(
        f"Turn {'on' if on else 'off'} {first} and {second}.",
        {"lit": lit},
        (
            (_build_check(f"final_state['lit'][{first!r}] is {on}"), "goal"),
            (_build_check(f"final_state['lit'][{second!r}] is {on}"), "goal"),
            (_build_check(f"all(final_state['lit'][room] is lit for room, lit in {other_lamps!r}.items())"), "guard"),
        ),
        _build_reference(calls),
        _build_reference(calls[:1]),
        _build_frame(f"/lit/{first}", f"/lit/{second}"),
    )


def _draw_depot_task(dice: random.Random) -> UnnamedTask:
    buyers = {item: dice.choice(CITIES) for item in dice.sample(ITEMS, 3)}
    item = dice.choice(sorted(buyers))
    return UnnamedTask(
        f"Send {item} to the buyer.",
        {"buyers": buyers, "sent": []},
        ((_build_check(f"final_state['sent'] == [[{item!r}, {buyers[item]!r}]]"), "goal"),),
        _build_reference([_build_call("buyer", item=item), _build_call("send", item=item, city=buyers[item])]),
        _build_reference([_build_call("send", item=item, city=CITIES[0])]),
        _build_frame("/sent/+"),
    )


def _draw_library_task(dice: random.Random) -> UnnamedTask:
    titles = dice.sample(TITLES, 3)
    loans = {title: {"late": dice.random() < 0.5, "fined": False, "extended": False} for title in titles}
    title = titles[0]
    right, wrong = ("fine", "extend") if loans[title]["late"] else ("extend", "fine")
    done_fields = {"fine": "fined", "extend": "extended"}
    untouched = f"all(final_state['loans'][t] == initial_state['loans'][t] for t in {titles[1:]!r})"
    return UnnamedTask(
        f"If {title} is late fine it, else extend it.",
        {"loans": loans},
        (
            (_build_check(f"final_state['loans'][{title!r}][{done_fields[right]!r}]"), "goal"),
            (_build_check(f"not final_state['loans'][{title!r}][{done_fields[wrong]!r}] and {untouched}"), "guard"),
        ),
        _build_reference([_build_call("look_up", title=title), _build_call(right, title=title)]),
        _build_reference([_build_call("extend", title=title)]),
        _build_frame(f"/loans/{title}/{done_fields[right]}"),
    )


def _draw_clinic_task(dice: random.Random) -> UnnamedTask:
    doctors = dice.sample(DOCTORS, 2)
    free = {doctor: dice.sample(DAYS, 3) for doctor in doctors}
    doctor, patient = doctors[0], dice.choice(PATIENTS)
    first = free[doctor][0]
    return UnnamedTask(
        f"Book {patient} with {doctor}, first free day.",
        {"free": free, "booked": []},
        (
            (_build_check(f"[entry[:2] for entry in final_state['booked']] == [[{doctor!r}, {patient!r}]]"), "goal"),
            (_build_check(f"[{doctor!r}, {patient!r}, {first!r}] in final_state['booked']"), "goal"),
        ),
        _build_reference(
            [_build_call("next_free", doctor=doctor), _build_call("book", doctor=doctor, patient=patient, day=first)]
        ),
        _build_reference([_build_call("book", doctor=doctor, patient=patient, day=DAYS[0])]),
        _build_frame(f"/free/{doctor}/-", "/booked/+"),
    )


def _build_call(tool: str, **arguments: Any) -> ReferenceCall:
    return ReferenceCall(tool=tool, arguments=arguments)


def _build_reference(calls: list[ReferenceCall]) -> Reference:
    return Reference(calls=tuple(calls), answer=DONE)


PARTLY = "What is wrong here costs its own goal alone: a part of the work is paid in part."


def _build_frame(*paths: str) -> Frame:
    """Return a frame of places that may change, to anything; one record may be added or removed at `+` and `-`."""
    counted = ((path, 1 if path[-1] in "+-" else None) for path in paths)
    places = [Allowance(path=path, most=most, source="author", reason=PARTLY) for path, most in counted]
    return Frame(allowances=tuple(places))


def _build_check(expression: str) -> str:
    return f"def check(initial_state, final_state, answer):\n    return bool({expression})\n"


@dataclass(frozen=True)
class Environment:
    """One of the demo's environments. `changes` are the tools that change the state."""

    class_name: str
    introduction: str
    changes: tuple[str, ...]
    draw: Callable[[random.Random], UnnamedTask]


ENVIRONMENTS: dict[str, Environment] = {
    "clinic": Environment("Clinic", "You keep a clinic's appointments.", ("book",), _draw_clinic_task),
    "depot": Environment("Depot", "You run a depot.", ("send",), _draw_depot_task),
    "lamps": Environment("Lamps", "You look after the lamps of a house.", ("switch",), _draw_lamps_task),
    "library": Environment("Library", "You look after a library's loans.", ("fine", "extend"), _draw_library_task),
}


def build_program(name: str) -> Program:
    """Return the program of an environment with the working schemas of its tools."""
    about = ENVIRONMENTS[name]
    source = resources.files(__package__).joinpath("programs").joinpath(f"{name}.py").read_text(encoding="utf-8")
    tools = []
    for method in outline_program(source, about.class_name).methods:
        if not method.name.startswith("_"):
            kind: ToolKind = "change" if method.name in about.changes else "query"
            schema = derive_working_schema(method)
            tools.append(Tool(name=method.name, description=method.docstring, kind=kind, parameters=schema))
    return Program(source=source, class_name=about.class_name, tools=tuple(tools))


def draw_tasks(seed: int, each: int) -> list[DemoTask]:
    """Return `each` tasks of every environment, no two alike (instruction and state), interleaved; the same for a
    seed.
    """
    programs = {name: build_program(name) for name in ENVIRONMENTS}
    by_environment = [_draw_environment_tasks(name, programs[name], seed, each) for name in sorted(ENVIRONMENTS)]
    return [task for together in zip(*by_environment, strict=True) for task in together]


def _draw_environment_tasks(name: str, code: Program, seed: int, each: int) -> list[DemoTask]:
    dice = random.Random(f"demo:{seed}:{name}")
    tasks: dict[str, DemoTask] = {}
    while len(tasks) < each:
        drawn_task = ENVIRONMENTS[name].draw(dice)
        identity = f"{drawn_task.instruction}{drawn_task.initial}"
        if identity in tasks:
            continue
        rollout = RolloutTask(
            key=f"{name}-{seed}-{len(tasks)}",
            program=code,
            initial=encode_state(drawn_task.initial),
            instruction=drawn_task.instruction,
            documentation=format_documentation(ENVIRONMENTS[name].introduction, ()),
            verifier=ChecksVerifier(
                checks=tuple(CheckRecord(source=source) for source, _ in drawn_task.checks),
                marks=tuple(mark for _, mark in drawn_task.checks),
                frame=drawn_task.frame,
            ),
        )
        tasks[identity] = DemoTask(name, rollout, drawn_task.reference, drawn_task.careless)
    return list(tasks.values())
