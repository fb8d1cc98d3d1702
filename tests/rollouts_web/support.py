"""A small environment with a task that can be solved, its reference, people, and an endpoint at a scripted server."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CheckRecord, Reference, ReferenceCall, Verifier
from synthesis.formats.answer_form import add_field_checks, read_form, serialize_answer, serialize_form
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from synthesis.formats.verifier_record import serialize_verifier
from tests.fixtures.imported_task import imported_task
from tests.fixtures.llm import Request, Scripted, call, say
from tests.rollout.support import EXPECTED, FORM, SOURCE
from tests.verifier_fields import nest_verifier
from webapp.accounts.models import User
from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import EndpointChanges, save_endpoint
from webapp.scenarios.models import Task

KEY = "sk-never-to-be-seen-4711"
PASSWORD = "a long password"
OPEN_IT = "def check(initial_state, final_state):\n    return final_state['boxes']['B-1']['open']\n"
LEAVE_IT = "def check(initial_state, final_state):\n    return not final_state['boxes']['B-2']['open']\n"
REFERENCE = Reference(
    calls=(
        ReferenceCall(tool="find_box", arguments={"owner": "Ada"}),
        ReferenceCall(tool="open_box", arguments={"box_id": "B-1"}),
    ),
    answer="Her box B-1 is open.",
)

RAW: dict[str, Any] = {"env_id": "shelf", "init_config": {}, "task": "Ada would like her box to be opened."}


def checks_of(sources: tuple[str, ...]) -> tuple[CheckRecord, ...]:
    return tuple(CheckRecord(label=f"check {number}", source=source) for number, source in enumerate(sources, 1))


def make_task(
    *,
    reference: bool = True,
    checks: bool | tuple[str, ...] = True,
    key: str = "open-ada",
    criteria: tuple[Any, ...] = (),
    form: bool = False,
    verifier: Verifier | None = None,
    **asked: Any,
) -> Task:
    """With a `form` two of the checks compare fields of the answer; `asked`: `answer_form` and `expected_answer` of a
    rubric or of another `verifier`, as records hold them."""
    kinds = {"find_box": "query", "open_box": "change", "burn": "query", "print_all": "query"}
    environment = EnvironmentRecord(
        key="shelf",
        name="Shelf of boxes",
        category="Storage",
        class_name="Shelf",
        source=SOURCE,
        introduction="A shelf of boxes.",
        rules=("Only its owner's box may be opened.",),
        tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in kinds.items()),  # type: ignore[arg-type]
    )
    listed = (CheckRecord(label="Ada's is open", source=OPEN_IT), CheckRecord(label="Bo's is not", source=LEAVE_IT))
    own = listed if checks is True else checks_of(checks or ())
    raw_form = serialize_form(FORM, EXPECTED) if form else asked
    judged = add_field_checks(own, FORM, EXPECTED) if form else own
    asks = read_form(raw_form, "task")
    fields = {"checks": judged, "criteria": criteria, "expected_answer": raw_form.get("expected_answer", {})}
    fields |= {"verifier": verifier}
    spelled = serialize_verifier(verifier) if verifier is not None else {}
    record = TaskRecord(
        environment_key="shelf",
        key=key,
        title="Open Ada's box",
        scenario_name="Two boxes",
        instruction=RAW["task"],
        initial_state={},
        answer_form=asks,
        **nest_verifier(fields),
        raw={**RAW, "task_id": key, "checks": checks, **raw_form, **spelled},
    )
    known = REFERENCE.model_copy(update={"answer": serialize_answer(EXPECTED)}) if form else REFERENCE
    return imported_task(environment, record, known if reference else None)


def person(role: str = "annotator", name: str = "ann") -> User:
    return User.objects.create_user(name, password=PASSWORD, role=role)


def endpoint_at(url: str, **changes: Any) -> Endpoint:
    fields: dict[str, Any] = {"name": "local", "base_url": url, "key": KEY, "models": ("scripted-1",)}
    return save_endpoint(None, EndpointChanges(**(fields | changes)))


def solver(request: Request) -> Scripted:
    """Opens the box and says so."""
    done = sum(message["role"] == "tool" for message in request["messages"])
    if done == 0:
        return call("find_box", owner="Ada")
    return call("open_box", box_id="B-1") if done == 1 else say("It is open.")
