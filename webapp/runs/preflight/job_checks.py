"""Preflight checks of a new training job: faults and warnings by field, steps, memory, time and queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

from synthesis.contracts import Frozen
from training import presets
from training.config import EvaluationJob, Reinforcement, Supervised
from webapp.datasets.models import Dataset, DatasetState, StoredFile
from webapp.datasets.queries import get_sentence
from webapp.datasets.row_facts import Facts, load_facts, load_file_facts
from webapp.runs.models import TrainingState
from webapp.runs.preflight import matching
from webapp.runs.preflight.candidates import Candidate, list_candidates
from webapp.runs.preflight.estimates import Duration, Queue, build_queue, estimate_duration
from webapp.runs.preflight.evaluation_checks import check_evaluation
from webapp.runs.preflight.job_lookup import (
    ResolvedJob,
    get_default_preset,
    get_origin_model,
    get_weight,
    load_preset,
    resolve_job,
)
from webapp.runs.preflight.memory import Memory, estimate_memory, get_room
from webapp.runs.preflight.objective_warnings import check_course, check_loss
from webapp.runs.preflight.packages import check_packages
from webapp.runs.preflight.placement import check_offload, check_spreading
from webapp.runs.preflight.remarks import Remark
from webapp.runs.preflight.row_lengths import Tokens, check_row_lengths, warn_of_long_evaluation
from webapp.runs.preflight.step_count import count_steps
from webapp.runs.preflight.user_tools import check_user_tools
from webapp.runs.preflight.windows import check_lengths
from webapp.runs.preflight.worker_room import get_new_job_needs
from webapp.runs.spec import DEMO_MODEL, ENDPOINT, NewJob
from webapp.scenarios.verifiers import VERIFIER_NAMES


class Preflight(Frozen):
    """Preflight of a job. Without `problems` the job can be created; values that cannot be known are None, with the
    reason in their note."""

    problems: tuple[Remark, ...]
    warnings: tuple[Remark, ...]
    sentence: str
    """What the dataset is: rows, split unit, units on both sides."""
    preset: str
    config: dict[str, Any] | None
    changed: tuple[presets.Difference, ...]
    steps: int | None
    steps_note: str
    tokens: Tokens | None
    memory: Memory | None
    memory_note: str
    time: Duration | None
    time_note: str
    queue: Queue

    @property
    def ok(self) -> bool:
        return not self.problems


def run_preflight(new: NewJob, user: Any = None) -> Preflight:
    """Return the preflight of a job before it is created; nothing is written. `user` is who asks."""
    return check_resolved_job(resolve_job(new))


def check_resolved_job(asked: ResolvedJob) -> Preflight:
    """Return the preflight of a resolved job; add its findings to `asked`."""
    facts = load_facts(asked.dataset) if asked.dataset else load_file_facts(asked.file) if asked.file else None
    _check_preset(asked)
    _check_data(asked)
    if isinstance(asked.config, Reinforcement):
        _check_sampling(asked, asked.config, facts)
        _check_user(asked, asked.config, facts)
        held_out = load_facts(asked.evaluation) if asked.evaluation else None
        check_user_tools(asked, asked.config, (facts, held_out))
        check_loss(asked, asked.config)
    if isinstance(asked.config, EvaluationJob):
        check_evaluation(asked, asked.config)
    if isinstance(asked.config, Supervised | Reinforcement):
        check_course(asked, asked.config)
    _check_evaluation_user(asked)
    _check_judge(asked, facts)
    _check_user_judge(asked, facts)
    _check_superseded(asked, facts)
    if isinstance(asked.config, Supervised | Reinforcement) and facts is not None:
        _check_mixture(asked, asked.config, facts)
    check_lengths(asked)
    check_offload(asked)
    tokens = check_row_lengths(asked, facts)
    warn_of_long_evaluation(asked)
    here = list_candidates()
    _check_workers(asked, here)
    steps, steps_note = count_steps(asked.config, facts, asked.dataset, asked.file)
    needs = get_new_job_needs(asked)
    takers = matching.list_takers(asked.loaded, asked.new.engine, here, needs)
    memory, memory_note = estimate_memory(asked.base, asked.config, asked.new.engine, takers)
    given_to = matching.filter_unimpeded(takers, needs)
    check_packages(asked, takers, given_to)
    check_spreading(asked, given_to)
    if memory is not None:
        _check_memory(asked, memory)
    time, time_note = estimate_duration(asked.base, asked.preset, asked.new.method, steps)
    return Preflight(
        problems=tuple(asked.problems),
        warnings=tuple(asked.warnings),
        sentence=_format_data_sentence(asked.dataset, asked.file),
        preset=asked.preset,
        config=asked.config.model_dump(mode="json") if asked.config else None,
        changed=_list_differences(asked),
        steps=steps,
        steps_note=steps_note,
        tokens=tokens,
        memory=memory,
        memory_note=memory_note,
        time=time,
        time_note=time_note,
        queue=_build_queue(asked, here, given_to, memory),
    )


def _build_queue(asked: ResolvedJob, here: list[Candidate], able: list[Candidate], memory: Memory | None) -> Queue:
    unknown = [one.name for one in able if get_room(one) is None] if memory and asked.base != DEMO_MODEL else []
    return build_queue(here, [one.name for one in able], unknown)


def _list_differences(asked: ResolvedJob) -> tuple[presets.Difference, ...]:
    if asked.config is None:
        return ()
    return presets.list_differences(load_preset(asked.preset, asked.new.method), asked.config)


def _format_data_sentence(dataset: Dataset | None, file: StoredFile | None) -> str:
    if dataset is not None:
        return get_sentence(dataset, "not frozen yet")
    if file is not None:
        rows = int(file.report.get("rows") or 0)
        return f"{rows} {file.kind or 'rows'} of an uploaded file, nothing held out"
    return ""


def _check_preset(asked: ResolvedJob) -> None:
    """Warn if the demo's preset is used for another model, or another preset for the demo's tiny model."""
    own, base = get_default_preset(asked.new.method, DEMO_MODEL), get_origin_model(asked)
    if asked.chosen is None or not base or (base == DEMO_MODEL) == (asked.preset == own):
        return
    if base == DEMO_MODEL:
        message = f"These values are not the demo's: its tiny model learns little with them. Its preset is {own}."
    else:
        message = f"The preset {own} is made for the demo's tiny model, not for {base}: take another one."
    asked.warn("preset", "other_model", message)


def _check_data(asked: ResolvedJob) -> None:
    expected_kind = "trajectories" if asked.new.method == "supervised" else "tasks"
    for param, row, file, kind in (
        ("training_file", asked.dataset, asked.file, expected_kind),
        ("validation_file", asked.evaluation, asked.evaluation_file, "tasks"),
    ):
        actual_kind = row.kind if row is not None else file.kind if file is not None else ""
        if actual_kind and actual_kind != kind:
            learns = param == "training_file" and asked.new.method != "evaluation"
            use = f"{asked.new.method} training learns from" if learns else "an evaluation tries"
            asked.refuse(
                param, "wrong_kind", f"{use.capitalize()} {kind}, and this holds {actual_kind}. Choose another one."
            )
        if row is not None and row.state == DatasetState.FREEZING:
            message = f"The dataset {row.public_id} is being frozen; the job waits for it before it is queued."
            asked.warn(param, "dataset_freezing", message)
    own = asked.new.method == "reinforcement" and not asked.new.evaluation
    row = asked.dataset
    unsplit = row is not None and row.state == DatasetState.READY and not row.test_rows
    if own and (unsplit or asked.file is not None):
        message = (
            "Nothing is held out: evaluations try the tasks that are learnt, so they do not show what is new to it."
        )
        asked.warn("training_file", "nothing_held_out", message)
    if asked.new.method == "supervised" and not asked.new.evaluation:
        message = "No tasks are named to evaluate on: only loss and token accuracy will be shown."
        asked.warn("validation_file", "no_evaluation", message)


def _check_sampling(asked: ResolvedJob, config: Reinforcement, facts: Facts | None) -> None:
    """Refuse as the trainer's catalogue does: too few environments or tasks for a step, or an environment with too
    few."""
    sampling, mixture, row = config.sampling, config.mixture, asked.dataset
    if facts is not None:
        counted: dict[str, int] = {}
        for fact in facts.rows:
            is_weighted = get_weight(mixture.settings, fact.setting) and get_weight(mixture.verifiers, fact.verifier)
            if get_weight(mixture.environments, fact.environment) and is_weighted:
                counted[fact.environment] = counted.get(fact.environment, 0) + 1
        if sampling.draw == "tasks":
            _require_tasks(asked, sampling.tasks, sum(counted.values()))
            return
        if len(counted) < sampling.environments:
            weightless = len(facts.environments().keys() - counted.keys())
            _refuse_environments(asked, sampling.environments, len(counted), weightless)
        short = {name: count for name, count in counted.items() if count < sampling.tasks_each}
        if short:
            name, count = next(iter(sorted(short.items())))
            message = (
                f"A step asks for {sampling.tasks_each} tasks of an environment, and {len(short)} have fewer "
                f"({name[:60]!r} has {count}). Lower changes.sampling.tasks, or give them weight 0 in "
                "changes.mixture.environments."
            )
            asked.refuse("changes.sampling.tasks", "too_few_tasks", message)
    elif row is not None and row.state == DatasetState.READY:
        environment_count = int((row.manifest.get("train") or {}).get("environments", row.environments))
        if sampling.draw == "environments" and environment_count < sampling.environments:
            _refuse_environments(asked, sampling.environments, environment_count)
        _require_tasks(asked, sampling.tasks, row.train_rows)


def _require_tasks(asked: ResolvedJob, wanted: int, there: int) -> None:
    if there < wanted:
        message = f"A step asks for {wanted} tasks, and the dataset has {there} to learn from."
        asked.refuse("changes.sampling.tasks", "too_few_tasks", f"{message} Lower changes.sampling.tasks.")


def _check_mixture(asked: ResolvedJob, config: Supervised | Reinforcement, facts: Facts) -> None:
    """Warn of weights for unknown names: a misspelled one would silently do nothing."""
    unknown = sorted(set(config.mixture.environments) - {row.environment for row in facts.rows})
    if unknown:
        message = (
            f"The dataset has no environment {unknown[0][:60]!r}"
            + (f" (and {len(unknown) - 1} more that are named)" if len(unknown) > 1 else "")
            + ": its weight does nothing. Environments are named as in the rows' field `environment`."
        )
        asked.warn("changes.mixture.environments", "unknown_environment", message)
    left = Counter(fact.verifier for fact in facts.rows if not get_weight(config.mixture.verifiers, fact.verifier))
    if left:
        kinds = ", ".join(f"{count:,} judged by {VERIFIER_NAMES[kind]}" for kind, count in sorted(left.items()))
        message = (
            f"Tasks of the dataset are left out: {kinds}. The reward of this preset is of another kind of verifier; "
            "changes.mixture.verifiers lets them in."
        )
        asked.warn("changes.mixture.verifiers", "verifiers_left_out", message)


def _refuse_environments(asked: ResolvedJob, wanted: int, there: int, weightless: int = 0) -> None:
    message = (
        f"A step asks for {wanted} environments, and the dataset has {there} to learn from. Lower "
        "changes.sampling.environments (and tasks with it), or choose another dataset."
    )
    if weightless:
        message += (
            f" It has {weightless} more, to whose environments, settings (task, conversation) or kinds of verifiers "
            "changes.mixture gives a weight of 0."
        )
    asked.refuse("changes.sampling.environments", "too_few_environments", message)


def _check_user(asked: ResolvedJob, config: Reinforcement, facts: Facts | None) -> None:
    if asked.user is not None or asked.new.user_model:
        return
    if facts is None:
        if asked.dataset is not None and asked.dataset.state == DatasetState.READY:
            message = "The dataset is too large to look through now: should it hold conversations, name a user_model."
            asked.warn("user_model", "not_looked_at", message)
    elif "conversation" in facts.settings() and get_weight(config.mixture.settings, "conversation"):
        message = (
            "The dataset holds conversations, and no model plays the user: name a user_model, set a default model for "
            "the role user, or give conversations weight 0 (changes.mixture.settings)."
        )
        asked.refuse("user_model", "missing", message)


def _check_evaluation_user(asked: ResolvedJob) -> None:
    """Refuse conversations to evaluate on without a user model: the evaluation would fail at the first one."""
    facts = load_facts(asked.evaluation) if asked.evaluation else None
    if facts is not None and "conversation" in facts.settings() and asked.user is None and not asked.new.user_model:
        message = (
            "The tasks to evaluate on hold conversations, and no model plays the user: name a user_model, or set a "
            "default model for the role user."
        )
        asked.refuse("user_model", "missing", message)


def _check_superseded(asked: ResolvedJob, facts: Facts | None) -> None:
    """Refuse frozen tasks whose checks cannot be run by this version any more."""
    tried = [("training_file", facts)] if asked.new.method != "supervised" else []
    tried += [("validation_file", load_facts(asked.evaluation))] if asked.evaluation else []
    for param, known in tried:
        count = sum(row.is_superseded for row in known.rows) if known else 0
        if count:
            message = (
                f"{count:,} of its tasks {'are' if count > 1 else 'is'} superseded: their checks read the words of "
                "answers, which this version does not do any more. Give these tasks an answer form, and freeze a "
                "dataset of them anew."
            )
            asked.refuse(param, "superseded_tasks", message)


def _check_judge(asked: ResolvedJob, facts: Facts | None) -> None:
    """Refuse tasks whose rubrics need a judge if there is none: no attempt at them could be rewarded."""
    if asked.judge is not None or asked.new.judge_model:
        return
    tried = [facts] if asked.new.method != "supervised" else []
    tried += [load_facts(asked.evaluation)] if asked.evaluation else []
    judged = sum(row.asks_judge for known in tried if known for row in known.rows)
    if judged:
        message = (
            f"{judged:,} task{'s are' if judged > 1 else ' is'} judged by a rubric, and there is no judge: name a "
            "judge_model, or set a default model for the role judge."
        )
        asked.refuse("judge_model", "missing", message)


def _check_user_judge(asked: ResolvedJob, facts: Facts | None) -> None:
    """Refuse conversations whose users are to be judged if there is no judge: no fault would be found, and none
    masked."""
    config = asked.config
    if isinstance(config, Reinforcement):
        asks = config.judges_user
        weighed = bool(get_weight(config.mixture.settings, "conversation"))
    else:
        asks = isinstance(config, EvaluationJob) and config.attempts.judges_user
        weighed = True
    if not asks or asked.judge is not None or asked.new.judge_model:
        return
    learnt = weighed and facts is not None and "conversation" in facts.settings()
    held_out = load_facts(asked.evaluation) if asked.evaluation else None
    if learnt or (held_out is not None and "conversation" in held_out.settings()):
        message = (
            "Whether simulated users erred is to be judged (changes.masking.meu, changes.attempts.judges_user), and "
            "there is no judge: name a judge_model, set a default model for the role judge, or turn both off."
        )
        asked.refuse("judge_model", "missing", message)


def _check_workers(asked: ResolvedJob, here: list[Candidate]) -> None:
    model, engine = asked.loaded, asked.new.engine
    remark = matching.find_impediment(model, engine, here)
    able = [candidate for candidate in here if candidate.can_take(model, engine)]
    if remark is not None and remark.code == matching.MODEL_UNSEEN:
        if all(problem.param != "model" for problem in asked.problems):
            asked.problems.append(remark)  # no current worker lists the model or could fetch it
    elif remark is not None:
        asked.warnings.append(remark)
    elif "/" in model and not model.startswith(ENDPOINT) and not any(model in one.models for one in able):
        message = (
            f"No worker lists {model}: the worker of the job looks for it on Hugging Face, and the job fails if "
            "it is not"
        )
        asked.warn("model", "model_unseen", f"{message} there.")
    ahead = asked.after
    if ahead is not None and ahead.state != TrainingState.SUCCEEDED:
        message = f"The job waits until {ahead.public_id} ({ahead}) has succeeded."
        asked.warn("after", "waits", message)


def _check_memory(asked: ResolvedJob, memory: Memory) -> None:
    if memory.fits or (asked.base == DEMO_MODEL and not memory.bar):
        return
    whose = f" ({memory.workers[0].worker})" if memory.workers else ""
    if memory.bar:
        message = f"{memory.bar}{whose}. "
    else:
        needed, where, _ = memory.tightest
        mostly = f": mostly for {' and '.join(_list_largest_parts(memory))}" if needed == memory.bytes else ""
        message = f"The job needs about {needed / 2**30:.0f} GiB {where}{whose}, of {memory.there}{mostly}. "
    if memory.remedies:
        message += f"It would fit with {'; or with '.join(memory.remedies)}."
    elif memory.gpus:
        message += "No setting makes it fit, nor do more GPUs of this size: take a smaller model, or shorter sequences."
    else:
        message += "No setting makes it fit: take a worker with GPUs or more memory, a smaller model, or shorter "
        message += "sequences."
    asked.warn("changes.hardware.sharding", "too_large", message)


def _list_largest_parts(memory: Memory) -> list[str]:
    return sorted(memory.parts, key=lambda name: -memory.parts[name])[:2]
