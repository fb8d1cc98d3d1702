"""What a job is told: ranges, combinations that make no sense, and values whose origin is shown."""

from __future__ import annotations

import pytest

from synthesis.errors import InputError
from training import presets
from training.config import EvaluationJob, Reinforcement, Supervised, read_config
from training.sampler import repeat_rows


@pytest.mark.parametrize(
    ("values", "place", "reason"),
    [
        ({"type": "other"}, "the configuration", "does not match"),
        ([], "the configuration", "dictionary"),
        ({"type": "reinforcement", "lr": 1}, "lr", "not permitted"),
        ({"type": "reinforcement", "optimiser": {"learning_rate": 0}}, "optimiser.learning_rate", "greater than 0"),
        (
            {"type": "reinforcement", "optimiser": {"learning_rate": float("nan")}},
            "optimiser.learning_rate",
            "less than or equal to 1",
        ),
        ({"type": "reinforcement", "sampling": {"environments": 5, "tasks": 32}}, "sampling", "multiple"),
        (
            {
                "type": "reinforcement",
                "sampling": {"environments": 8, "tasks": 8},
                "advantage": {"kind": "environment"},
            },
            "the configuration",
            "at least 2 a step",
        ),
        (
            {"type": "reinforcement", "sampling": {"draw": "tasks"}, "advantage": {"kind": "environment"}},
            "the configuration",
            "sampling.draw",
        ),
        ({"type": "reinforcement", "sampling": {"rollouts": 1}}, "sampling.rollouts", "greater than or equal to 2"),
        (
            {"type": "reinforcement", "horizon": {"kind": "list", "turns": [5, 5], "every": 3}},
            "horizon",
            "longer than the one before",
        ),
        (
            {
                "type": "reinforcement",
                "horizon": {"kind": "increment", "first": 9, "increment": 1, "every": 1, "cap": 8},
            },
            "horizon",
            "longer than the cap",
        ),
        (
            {"type": "reinforcement", "horizon": {"kind": "fractions", "phases": [{"begins": 0.1, "turns": 3}]}},
            "horizon",
            "must begin at 0",
        ),
        ({"type": "reinforcement", "kl": {"coefficient": 0.1, "to": "old", "place": "reward"}}, "kl", "always 0"),
        ({"type": "reinforcement", "kl": {"coefficient": 0.1, "estimator": "k1"}}, "kl", "mean 0"),
        ({"type": "reinforcement", "kl": {"coefficient": 0.1, "place": "reward_to_go"}}, "the configuration", "global"),
        (
            {"type": "reinforcement", "advantage": {"kind": "global"}, "dynamic_sampling": {"enabled": True}},
            "the configuration",
            "do teach",
        ),
        (
            {"type": "reinforcement", "mixture": {"settings": {"task": 0, "conversation": 0}}},
            "mixture",
            "both settings",
        ),
        ({"type": "supervised", "tuning": {"kind": "lora", "rank": 0}}, "tuning.rank", "greater than or equal to 1"),
        ({"type": "supervised", "thinking": "stripped"}, "the configuration", "take samples `mask_history`"),
        (
            {"type": "reinforcement", "thinking": "stripped", "loss": {"form": "gspo"}},
            "the configuration",
            "several sequences, one a turn",
        ),
        ({"type": "reinforcement", "overlong": {"buffer": 32_768}}, "the configuration", "shorter than that"),
        ({"type": "reinforcement", "loss": {"dual_clip": 1.2}}, "loss", "not above 1 \\+ clip_high"),
        ({"type": "reinforcement", "loss": {"form": "cispo", "dual_clip": 3}}, "loss", "holds every ratio already"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(values: object, place: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{place}: .*({reason})"):
        read_config(values)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError, match=r"epochs: .*; batch: "):
        read_config({"type": "supervised", "epochs": 0, "batch": 0})


AGENTGYM = {
    # AG B.1 to B.5 but for turns, attempts and learning rates.
    "type": "reinforcement",
    "reward": "score",
    "mixture.settings": {"task": 1, "conversation": 0},
    "decoding.temperature": 1,
    "sampling.rollouts": 8,
    "advantage.kind": "group",
    "loss.form": "grpo",
    "kl.coefficient": 1e-3,
    "kl.to": "reference",
    "optimiser.learning_rate": 1e-6,
    "evaluation.turns": 20,
}
PUBLISHED = {
    # Copied from the papers, not from the presets.
    "envscaler-sft": {"epochs": 3, "batch": 256, "max_length": 32 * 1024, "optimiser.learning_rate": 1e-6}
    | {"samples": "mask_history", "thinking": "stripped", "type": "supervised"},
    "envscaler-rl": {"kl.coefficient": 0.1, "optimiser.learning_rate": 1e-6, "sampling.tasks": 64, "steps": 200}
    | {"sampling.rollouts": 8, "decoding.trajectory_tokens": 32 * 1024, "decoding.turn_tokens": 4 * 1024}
    | {"advantage.kind": "global", "evaluation.temperature": 0.7, "evaluation.rollouts": 3, "reward": "score"}
    | {"mixture.settings": {"task": 1, "conversation": 0}, "type": "reinforcement", "sampling.draw": "tasks"},
    "autoforge-erpo": {"sampling.tasks": 32, "sampling.rollouts": 8}
    | {"advantage.kind": "environment", "loss.form": "trajectory", "kl.to": "old", "kl.place": "loss"}
    | {"masking.meu": True, "masking.meu_scope": "all", "dynamic_sampling.enabled": True, "type": "reinforcement"}
    | {"mixture.settings": {"task": 0, "conversation": 1}, "thinking": "kept", "reward": "score"}
    | {"mixture.verifiers": {"checks": 0, "golden": 1, "rubric": 0, "script": 0}},
    "agent-world-grpo": {"loss.clip_low": 0.2, "loss.clip_high": 0.28, "sampling.tasks": 32, "sampling.rollouts": 8}
    | {"decoding.trajectory_tokens": 80 * 1024, "decoding.turn_tokens": 32 * 1024, "decoding.temperature": 1}
    | {"decoding.top_p": 1, "evaluation.temperature": 1, "evaluation.top_p": 1, "evaluation.rollouts": 8}
    | {"loss.form": "grpo", "advantage.kind": "group", "kl.to": "reference", "kl.place": "loss"}
    | {"mixture.verifiers": {"checks": 0, "golden": 0, "rubric": 1, "script": 1}, "reward": "score"}
    | {"mixture.settings": {"task": 1, "conversation": 0}, "type": "reinforcement"},
    "agentgym-rl": AGENTGYM | {"horizon.kind": "fractions"},
    **{
        f"agentgym-{name}-{kind}": AGENTGYM
        | {"sampling.rollouts": rollouts, "optimiser.learning_rate": rate, "evaluation.turns": turns}
        | ({"horizon.turns": turns} if kind == "fixed" else {"horizon.kind": "list"})
        for name, (turns, rollouts, rate) in {
            "web": (15, 4, 5e-7),
            "search": (4, 8, 1e-6),
            "textcraft": (20, 8, 1e-6),
            "babyai": (20, 8, 1e-6),
            "sciworld": (20, 8, 1e-6),
        }.items()
        for kind in ("fixed", "scaling")
    },
    "agentgym-reinforce": {key: value for key, value in AGENTGYM.items() if key != "loss.form"}
    | {"advantage.kind": "global", "horizon.turns": 20},
    "agentgym-sft": {"type": "supervised", "optimiser.learning_rate": 1e-4},
    "autoforge-sft": {"type": "supervised", "thinking": "kept"},
    "agent-world-sft": {"type": "supervised"},
    "envscaler-evaluation": {
        "type": "evaluation",
        "decoding.temperature": 0.7,
        "decoding.trajectory_tokens": 64 * 1024,
        "repeats": 3,
        "thinking": "stripped",
    },
    "autoforge-evaluation": {"type": "evaluation", "thinking": "kept", "sent_reasoning": "field"}
    | {"attempts.user": "base"},
    "agent-world-evaluation": {"type": "evaluation", "decoding.temperature": 1, "decoding.top_p": 1, "repeats": 8},
    "agentgym-sweep": {"type": "evaluation", "repeats": 64},
    "demo-evaluation": {},
    "demo-sft": {},
    "demo-rl": {},
}


@pytest.mark.parametrize("name", presets.list_presets())
def test_published_values_are_those_of_the_papers_and_no_others(name: str) -> None:
    preset = presets.load_preset(name)
    values = dict(presets.iterate_leaves(preset.config))
    published = {path for path, mark in preset.marks.items() if mark.kind == "published"}
    assert {path: values[path] for path in published} == PUBLISHED[name]
    assert all(preset.marks[path].note.startswith(preset.paper) for path in published)


RELEASED = {
    # Tasks a step, tokens of a turn and of an attempt, horizons and steps between them, in the authors' scripts.
    "web": ((32, 512, 14_098), (32, 512, 14_098, [8, 12, 15], 80)),
    "search": ((32, 512, 8_192), (32, 512, 8_192, [5, 8, 10], 100)),
    "textcraft": ((32, 512, 10_240), (32, 512, 10_240, [10, 20, 30], 100)),
    "babyai": ((16, 200, 4_096), (32, 512, 8_192, [6, 13, 20], 100)),
    "sciworld": ((16, 200, 4_096), (16, 200, 8_192, [10, 20, 30], 100)),
}


@pytest.mark.parametrize("name", RELEASED)
@pytest.mark.parametrize("kind", ["fixed", "scaling"])
def test_released_values_are_those_of_the_scripts_and_marked_so(name: str, kind: str) -> None:
    preset = presets.load_preset(f"agentgym-{name}-{kind}")
    values = dict(presets.iterate_leaves(preset.config))
    paths = ["sampling.tasks", "decoding.turn_tokens", "decoding.trajectory_tokens", "horizon.turns", "horizon.every"]
    told = RELEASED[name][kind == "scaling"]
    released = dict(zip(paths, told, strict=False))
    released |= {"sampling.environments": 1, "advantage.epsilon": 1e-6, "loss.clip_low": 0.2, "loss.clip_high": 0.2}
    released |= {"kl.place": "loss", "kl.estimator": "k3"} | ({"horizon.kind": "constant"} if kind == "fixed" else {})
    marked = {path for path, mark in preset.marks.items() if mark.kind == "released"}
    assert {path: values[path] for path in marked} == released


def test_only_advantages_over_an_environment_need_two_of_its_tasks() -> None:
    one = {"type": "reinforcement", "sampling": {"environments": 8, "tasks": 8}}
    assert isinstance(read_config(one), Reinforcement)
    assert isinstance(read_config(one | {"advantage": {"kind": "mean"}, "loss": {"form": "dr_grpo"}}), Reinforcement)
    uneven = {"type": "reinforcement", "sampling": {"draw": "tasks", "environments": 5, "tasks": 32}}
    assert isinstance(read_config(uneven), Reinforcement), "no share of each environment"


@pytest.mark.parametrize("name", presets.list_presets())
def test_every_value_has_a_mark_with_words(name: str) -> None:
    preset = presets.load_preset(name)
    assert set(preset.marks) == {path for path, _ in presets.iterate_leaves(preset.config)}
    assert all(mark.note for mark in preset.marks.values())
    assert preset.title
    assert preset.about
    assert read_config(preset.config.model_dump(mode="json")) == preset.config


def test_all_kinds_of_jobs_have_presets() -> None:
    assert set(presets.list_presets()) == set(PUBLISHED)
    kinds = [type(presets.load_preset(name).config) for name in presets.list_presets()]
    assert set(kinds) == {Supervised, Reinforcement, EvaluationJob}


def test_changed_fields_are_merged_and_told() -> None:
    preset = presets.load_preset("agentgym-rl")
    chosen = presets.change_preset(
        preset, {"optimiser": {"learning_rate": 2e-6}, "horizon": {"kind": "constant", "turns": 9}}
    )
    assert isinstance(chosen.config, Reinforcement)
    assert chosen.config.optimiser.learning_rate == 2e-6
    assert chosen.config.kl == preset.config.kl  # type: ignore[union-attr]
    assert chosen.marks["optimiser.learning_rate"] == presets.Mark(kind="changed", note="the preset has 1e-06")
    assert chosen.marks["horizon.turns"].kind == "changed"
    assert chosen.marks["kl.coefficient"].kind == "published"
    told = {one.path: (one.preset, one.chosen) for one in presets.list_differences(preset, chosen.config)}
    assert told["optimiser.learning_rate"] == (1e-6, 2e-6)
    assert told["horizon.kind"] == ("fractions", "constant")
    assert told["horizon.turns"] == (None, 9)
    assert set(told) == {"optimiser.learning_rate", "horizon.kind", "horizon.turns", "horizon.phases"}
    assert presets.list_differences(preset, preset.config) == ()


def test_a_changed_mixture_replaces_the_presets() -> None:
    chosen = presets.change_preset(
        presets.load_preset("envscaler-rl"), {"mixture": {"settings": {"conversation": 1.0}}}
    )
    assert chosen.config.mixture.settings == {"conversation": 1.0}


def test_bad_changes_and_bad_files_are_refused() -> None:
    preset = presets.load_preset("demo-rl")
    with pytest.raises(InputError, match=r"^kl\.coefficent: .*not permitted"):
        presets.change_preset(preset, {"kl": {"coefficent": 1}})
    with pytest.raises(InputError, match="the other type"):
        presets.change_preset(preset, {"type": "supervised"})
    with pytest.raises(InputError, match="there is no preset 'demo'; take one of agent-world-evaluation, "):
        presets.load_preset("demo")
    for text, reason in [
        ("type = 3", "needs a value and its origin"),
        ('type = { value = "supervised" }', "marked by one of"),
        ('type = { value = "supervised", ours = "x", published = "y" }', "marked by one of"),
        ('type = { value = "supervised", ours = "x", by = "y" }', "nothing else"),
        ("type = ", "Invalid value"),
        ('extends = "none"', "which is no preset"),
        ('type = { value = "supervised", ours = "x" }\nepochs = { value = 0, ours = "x" }', "epochs: "),
    ]:
        with pytest.raises(InputError, match=reason):
            presets.parse_preset("bad", text)


def test_prompts_are_repeated_side_by_side() -> None:
    assert repeat_rows([3, 1], 3) == [3, 3, 3, 1, 1, 1]
