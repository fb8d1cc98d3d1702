"""Frozen types that cross every boundary: sandbox and host, synthesis and web app, web app and worker.

JSON-shaped throughout. `State` is always the *encoded* state (see `synthesis.runtime.encoding`): plain JSON
in which sets, tuples, non-string keys and the like are tagged objects, so that nothing is lost.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

State = dict[str, Any]
Patch = list[dict[str, Any]]
"""RFC 6902 operations, `add`, `remove` and `replace` only."""

Validation = Literal["schema", "source"]
"""`schema`: arguments are validated against the tool's working schema. `source`: the call as it was."""
ToolKind = Literal["query", "change"]
Severity = Literal["info", "warning", "fatal"]
Outcome = Literal["solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled"]
"""`program_error`: the environment's program ended the episode. It counts as an attempt that did not solve its task."""
UNCOUNTED: tuple[Outcome, ...] = ("infra_error", "cancelled")
"""Outcomes that say nothing about agent or program: they have no part in any rate. `program_error` has, without a
reward of its own."""
ScoreRule = Literal["goals", "proportion", "all"]
"""`goals`: the share of goals, 0 if a guard is broken; `proportion`: the share of all checks; `all`: 1 if all of a
rubric's criteria are met, else 0."""
PromptStyle = Literal["tools", "react", "call"]
"""How an agent spells a call: `tools` natively, `react` as Thought/Action text, `call` as `func(args)` text."""
UserKind = Literal["base", "optimised"]
Ending = Literal[
    "answered", "user_stopped", "turn_limit", "too_long", "cut", "unusable", "program_ended", "lost", "cancelled"
]
"""How an attempt came to its end, whatever it earned. `too_long`: the conversation outgrew the model's window or what
an attempt may hold; `cut`: the last words were broken off at the limit of tokens, or for repeating themselves without
end; `unusable`: turn after turn held nothing of use, or too many answers did not fit the answer form; `program_ended`:
the program's process exited, ran out of time or memory, broke the protocol or left a state that cannot be read; `lost`:
sandbox, LLM or user failed."""
AllowanceSource = Literal["reference", "author", "run", "person"]
"""Who allows a change: the reference makes it, the author declares it free, another solved run makes it, a person."""
Mark = Literal["goal", "guard", "broken"]
"""What a check is on the initial state: a goal is false there, a guard true, a broken one raises."""

DEFAULT_SEED = 0
DEFAULT_NOW = "2025-01-01T09:00:00+00:00"
SAME_REWARD = 1e-9
"""Rewards that differ by no more are one and the same, summed in another order."""
SOLVED_AT = 1 - SAME_REWARD


def same_reward(one: float, other: float) -> bool:
    return abs(one - other) <= SAME_REWARD


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tool(Frozen):
    """One tool of a program. `parameters` is the *working* JSON schema, derived from the signature.

    `withheld` are parameters that the program takes and this task's agents may not use: no schema says so, and a call
    that names one is refused as any unknown parameter is."""

    name: str
    description: str = ""
    kind: ToolKind = "query"
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    withheld: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)


class Program(Frozen):
    """What the runtime needs of an environment version. Only the tools in `tools` can be called."""

    source: str
    class_name: str
    tools: tuple[Tool, ...]


class CallError(Frozen):
    """Why a call was refused or failed: an observation, not an exception.

    `unknown_tool`, `bad_arguments` (refused by the schema or the signature), `raised` (the tool raised),
    `unencodable` (the result cannot leave the sandbox), `too_large` (the result exceeds the cap), `malformed` (what
    an agent wrote cannot be made a call at all: it never reached the environment, so a replay leaves it out), `ended`
    (the call was the last: the program ended its process, or what it sent cannot be used; said by the host alone).
    """

    kind: Literal["unknown_tool", "bad_arguments", "raised", "unencodable", "too_large", "malformed", "ended"]
    type: str = ""
    message: str = ""


class CallResult(Frozen):
    """The outcome of one call. `result` is encoded like a state; `duration_us` is measured on the host.

    `executed` is False for an answer that was submitted: the call ended the attempt and never reached the environment.
    """

    ok: bool
    result: Any = None
    error: CallError | None = None
    patch: Patch = Field(default_factory=list)
    duration_us: int = 0
    aliases_state: bool | None = None
    executed: bool = Field(default=True, exclude_if=lambda value: value)


def is_unexecuted(result: CallResult | None) -> bool:
    """Whether a call never reached the environment: it could not be carried out at all, or submitted the answer."""
    return result is not None and (
        not result.executed or (result.error is not None and result.error.kind == "malformed")
    )


def is_refusal(ok: bool, result: Any) -> bool:
    """Whether a call's outcome is a refusal: an error, or an answer whose `success` is false."""
    return not ok or (isinstance(result, dict) and result.get("success") is False)


class Verdict(Frozen):
    """One check or criterion on one end. `error` is set if a check raised or was stopped; then `passed` is false.

    Of a criterion `reason` says why it is met or not, and `quote` is the evidence that a judge rests this on.
    """

    passed: bool
    error: str = ""
    non_boolean: bool = False
    reason: str = ""
    quote: str = ""

    @model_validator(mode="before")
    @classmethod
    def _without_doubts(cls, given: Any) -> Any:
        """Leave out what verdicts that are stored since earlier versions say of doubts."""
        if isinstance(given, dict) and given.keys() & {"uncertain", "judged"}:
            return {name: value for name, value in given.items() if name not in ("uncertain", "judged")}
        return given

    @property
    def raised(self) -> bool:
        """Whether the check failed to say anything: it raised or was stopped."""
        return bool(self.error) and not self.non_boolean


class Allowance(Frozen):
    """A place in the state that a right way to do a task may change, and to what.

    `path` is a JSON Pointer through keys and ids of records: `/orders/O-3/status` and all below it. `*` stands for any
    one key. As the last part `+` means records added to a collection, `-` records removed, `#` their order; `most` of
    them (None: any number); `/orders/+/note` is that field of any added record. It may become one of `values`, or a
    number from `minimum` to `maximum`; added and removed records are among `records` (id, content). Without all of
    these anything is right. Whoever widens a frame says why (`reason`); `by` is a person's name.
    """

    path: str = Field(min_length=2, max_length=600, pattern=r"^/")
    most: int | None = Field(default=None, ge=1, le=1_000_000)
    values: tuple[Any, ...] = Field(default=(), max_length=1_000)
    minimum: float | None = Field(default=None, allow_inf_nan=False)
    maximum: float | None = Field(default=None, allow_inf_nan=False)
    records: tuple[tuple[str, Any], ...] = Field(default=(), max_length=10_000)
    source: AllowanceSource = "reference"
    reason: str = Field(default="", max_length=500)
    by: str = Field(default="", max_length=200)

    @model_validator(mode="after")
    def _whole(self) -> Allowance:
        last = self.path.rpartition("/")[2]
        if last not in ("+", "-") and (self.most is not None or self.records):
            raise ValueError("only what is added (/+) or removed (/-) can be counted by `most` or named by `records`")
        if last in ("+", "-", "#") and self.has_value:
            raise ValueError("`values`, `minimum` and `maximum` are for a field, not for whole records")
        if self.source != "reference" and not self.reason.strip():
            raise ValueError("say in `reason` why a right way may change this")
        return self

    @property
    def has_value(self) -> bool:
        """Whether it says what a field may become."""
        return bool(self.values) or self.minimum is not None or self.maximum is not None

    @property
    def is_pinned(self) -> bool:
        """Whether it says what may stand there."""
        return bool(self.records) or self.has_value

    @property
    def is_free(self) -> bool:
        """Whether anything may stand there, in any number."""
        return self.most is None and not self.is_pinned


class Frame(Frozen):
    """Everything that a right way to do a task may change; any other change of the state breaks the task."""

    allowances: tuple[Allowance, ...] = Field(default=(), max_length=20_000)


class OutsideChange(Frozen):
    """A change that a frame does not allow. `path` is the record's field, or the collection that `count` records were
    `added` to, `removed` from or `reordered` in. Of a `value` the place may change, but not to what was `found`."""

    path: str
    kind: Literal["changed", "added", "removed", "reordered", "value"]
    count: int = 1
    expected: str = Field(default="", exclude_if=lambda value: not value)
    found: str = Field(default="", exclude_if=lambda value: not value)


class Reward(Frozen):
    """A verifier's verdict: `reward` in [0, 1], the passed and total counts that made it, check by check.

    With something in `outside` (the first of the changes outside the task's frame) the reward is 0. If a model judged,
    `judge` is its name and `question` the SHA-256 of the messages that it was asked with.
    """

    reward: float
    passed: int
    total: int
    rule: ScoreRule
    verdicts: tuple[Verdict, ...]
    outside: tuple[OutsideChange, ...] = ()
    judge: str = ""
    question: str = ""

    @property
    def mean(self) -> float:
        """The share that passed."""
        return self.passed / self.total if self.total else 0.0


AnswerType = Literal[
    "number",
    "money",
    "date",
    "time",
    "duration",
    "enumeration",
    "id",
    "name",
    "list",
    "record",
    "boolean",
    "text",
]
"""`number`, `money` and `duration` are JSON numbers in the field's unit, `date` is `YYYY-MM-DD`, `time` `HH:MM`."""


class AnswerField(Frozen):
    """One field of an answer form: what the agent has to tell, and as what type.

    `unit` is what a number is counted in (kg, EUR, minutes), `tolerance` by how much it may differ, in the same unit
    (minutes for a `time`). An `enumeration` names its `choices`, a `list` what each of its `items` is and whether it
    must be `ordered`, a `record` its `fields`. What is not `required` may be left out.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,49}$")
    type: AnswerType = "text"
    description: str = Field(default="", max_length=300)
    unit: str = Field(default="", max_length=40)
    tolerance: float = Field(default=0, ge=0, le=1e9)
    choices: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(default=(), max_length=100)
    items: AnswerField | None = None
    ordered: bool = False
    fields: tuple[AnswerField, ...] = Field(default=(), max_length=20)
    required: bool = True

    @model_validator(mode="after")
    def _whole(self) -> AnswerField:
        needed = {"enumeration": bool(self.choices), "list": self.items is not None, "record": bool(self.fields)}
        names = {"enumeration": "choices", "list": "items", "record": "fields"}
        for kind, given in needed.items():
            if given != (self.type == kind):
                raise ValueError(f"`{names[kind]}` belong to a field of type {kind}, and to no other")
        if self.tolerance and self.type not in ("number", "money", "duration", "time"):
            raise ValueError("only numbers, amounts, durations and times have a tolerance")
        if len({field.name for field in self.fields}) < len(self.fields):
            raise ValueError("two of its `fields` have the same name")
        return self


class ReferenceCall(Frozen):
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Reference(Frozen):
    """A call sequence known to solve a task, and what is said in the end."""

    calls: tuple[ReferenceCall, ...] = ()
    answer: str = ""


class Withheld(Frozen):
    """What a variant of a task withholds from whoever attempts it: a tool, or one parameter of it.

    `solution` is how the task is solved with it: what a careless agent would do and say."""

    tool: str = Field(min_length=1, max_length=200)
    parameter: str = Field(default="", max_length=200)
    solution: Reference = Reference()

    @property
    def name(self) -> str:
        """`move_appointment`, or `add_dish(swaps)` for a parameter."""
        return f"{self.tool}({self.parameter})" if self.parameter else self.tool


class ToolCall(Frozen):
    """A call that an agent asks for. `raw` is what it wrote where that was text.

    With `error` set it cannot be executed (its arguments are no JSON object, say); then `arguments` is empty."""

    id: str = ""
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    raw: str = ""
    error: str = ""


class Message(Frozen):
    """One message of a conversation. `reasoning` is kept apart from `content` and is never sent back.

    With a text style (`react`, `call`) `content` is all the agent wrote, calls included, and `tool_calls` what was
    read out of it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class Usage(Frozen):
    """Tokens as the endpoint counted them, and the requests behind them: `requests` sent, of which `lost` gave no
    reply. An endpoint that counts nothing leaves the tokens 0."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    lost: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class Turn(Frozen):
    """One move of a policy. Ids and log-probabilities are there where the policy knows them; they belong together."""

    message: Message
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    usage: Usage | None = None
    finish_reason: str = ""


class TrajectoryStep(Frozen):
    """One step of an attempt. `turn` numbers the agent's turns from 1; calls of one parallel turn share it.

    `content` is what was said beside a call or instead of one, `observation` what the agent read afterwards.
    A call that could not be executed has a `result` with an error (`malformed`) and an empty patch; so has a submitted
    answer that does not fit the answer form. The accepted one has a result that was not `executed`. `cut` says why its
    turn was broken off (`length`, `repetition`), and is empty for a whole one.
    """

    kind: Literal["user", "message", "call"]
    turn: int = 0
    content: str = ""
    reasoning: str = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    result: CallResult | None = None
    observation: str = ""
    cut: str = ""


class Timing(Frozen):
    """Where an attempt's seconds went (AutoForge, Table 3). `wall_s` is all its time from its beginning to its end, to
    which its parts do not add up: waiting for a free thread counts to none of them."""

    environment_s: float = 0.0
    agent_s: float = 0.0
    user_s: float = 0.0
    verification_s: float = 0.0
    wall_s: float = 0.0


class Attempt(Frozen):
    """What one policy did with one task, and what it earned.

    `reward` is None where nothing could be judged (`program_error`, `infra_error`, `cancelled`). Of these
    `program_error` counts in denominators, as an attempt that earned nothing; the others are never a reward of 0.
    `final_hash` is the hash of the final state, empty where it was not reached. `messages` is the conversation as
    the agent saw it, `turns` its own moves. `prompts` maps the prompts used to their SHA-256. `sandbox_lost` is for who
    made the attempt and may begin it again: something of ours took its process away. `ended_by` is the reason of a
    `program_error` (`time`, `memory`, ...), where one is known.
    """

    key: str = ""
    """Names the task, as its caller chose."""
    ordinal: int = 0
    policy: str
    conversational: bool = False
    prompt_style: PromptStyle = "tools"
    user: str = ""
    validation: Validation = "schema"
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW
    steps: tuple[TrajectoryStep, ...] = ()
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    answer: str = ""
    ending: Ending
    outcome: Outcome
    reward: Reward | None = None
    final_hash: str = ""
    user_error: bool = False
    sandbox_lost: bool = Field(default=False, exclude=True)
    ended_by: str = ""
    note: str = ""
    prompts: dict[str, str] = Field(default_factory=dict)
    usage: Usage = Usage()
    user_usage: Usage = Usage()
    judge_usage: Usage = Usage()
    timing: Timing = Timing()


class Finding(Frozen):
    """A defect that is shown, not hidden. `place` is a path a person can follow (`tools.book_slot`)."""

    kind: str
    severity: Severity = "warning"
    place: str = ""
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class Limits(Frozen):
    """Bounds on one sandboxed process. Exceeding one ends that process and nothing else."""

    memory_mib: int = 256
    call_seconds: float = 5.0
    cpu_seconds: int = 60
    frame_bytes: int = 16 * 1024 * 1024
    depth: int = 100
