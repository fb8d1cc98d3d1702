"""The settings of a job as fields: every one has words, its text is read again, differences are what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.errors import InputError
from training import presets
from training.config import Reinforcement, Supervised, read_config
from webapp.runs import setting_fields

METHODS = ("supervised", "reinforcement")


def values_of(config: setting_fields.Config) -> dict[str, Any]:
    """The form's fields of a configuration, read again as they would be typed."""
    texts = setting_fields.build_texts(config)
    filled = [one for one in setting_fields.list_settings(config.type) if texts[one.name] or one.kind == "weights"]
    return {one.name: setting_fields.parse_field_text(one, texts[one.name]) for one in filled}


@pytest.mark.parametrize("name", presets.list_presets())
def test_a_preset_survives_the_form(name: str) -> None:
    config = presets.load_preset(name).config
    assert read_config(setting_fields.nest_values(values_of(config), config.type)) == config


@pytest.mark.parametrize(
    "horizon",
    [
        {"kind": "list", "turns": [4, 8, 15], "every": 20},
        {"kind": "increment", "first": 3, "increment": 2, "every": 10, "cap": 30},
        {"kind": "fractions", "phases": [{"begins": 0.0, "turns": 5}, {"begins": 0.34, "turns": 20}]},
    ],
)
def test_every_horizon_survives_the_form(horizon: dict[str, Any]) -> None:
    config = read_config({"type": "reinforcement", "horizon": horizon, "tuning": {"kind": "lora", "rank": 4}})
    assert read_config(setting_fields.nest_values(values_of(config), config.type)) == config


def test_weights_keep_names_that_hold_commas_and_colons() -> None:
    table = {"shop: north, west": 2.0, "a": 0.5}
    config = read_config({"type": "supervised", "mixture": {"environments": table}})
    again = read_config(setting_fields.nest_values(values_of(config), config.type))
    assert again.mixture.environments == table


@pytest.mark.parametrize("method", METHODS)
def test_every_field_stands_under_one_heading_with_a_name_of_its_own(method: str) -> None:
    shown = [one.name for _, group in setting_fields.group_settings(method) for one in group]
    assert sorted(shown) == sorted(one.name for one in setting_fields.list_settings(method))
    assert len(set(shown)) == len(shown)
    config: setting_fields.Config = Supervised() if method == "supervised" else Reinforcement()
    known = {one.path for one in setting_fields.list_settings(method)}
    assert {path for path, _ in presets.iterate_leaves(config)} - {"type"} <= known


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("steps", "ten", "no whole number"),
        ("steps", "1.5", "no whole number"),
        ("steps", "", "Say a value"),
        ("optimiser__learning_rate", "fast", "no number"),
        ("optimiser__learning_rate", "nan", "finite"),
        ("mixture__environments", "shop", "no pair"),
        ("horizon__fractions__phases", "0: many", "no whole number"),
        ("horizon__list__turns", "4, five", "no whole number"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, text: str, said: str) -> None:
    setting = next(one for one in setting_fields.list_settings("reinforcement") if one.name == name)
    with pytest.raises(ValueError, match=said):
        setting_fields.parse_field_text(setting, text)


def test_changes_are_what_differs_and_a_new_kind_brings_its_whole_part() -> None:
    preset = presets.load_preset("autoforge-erpo")
    before = preset.config.model_dump(mode="json")
    after = read_config(
        before
        | {"optimiser": before["optimiser"] | {"learning_rate": 3e-6}}
        | {"horizon": {"kind": "list", "turns": [4, 8], "every": 10}}
        | {"mixture": {"settings": {"task": 1.0}, "environments": {}}}
    )
    changes = setting_fields.list_changes(before, after.model_dump(mode="json"))
    assert changes == {
        "optimiser": {"learning_rate": 3e-6},
        "horizon": {"kind": "list", "turns": [4, 8], "every": 10},
        "mixture": {"settings": {"task": 1.0}, "verifiers": {}},
    }
    assert presets.change_preset(preset, changes).config == after


def test_an_error_finds_its_field() -> None:
    assert setting_fields.find_field_name(("sampling", "tasks"), "reinforcement") == "sampling__tasks"
    assert setting_fields.find_field_name(("horizon", "list", "turns", 2), "reinforcement") == "horizon__list__turns"
    assert setting_fields.find_field_name(("epochs",), "supervised") == "epochs"
    assert setting_fields.find_field_name(("sampling",), "reinforcement") == ""


def test_kinds_of_verifiers_are_let_in_by_a_form_and_as_a_whole() -> None:
    preset = presets.load_preset("autoforge-erpo")
    setting = next(one for one in setting_fields.list_settings("reinforcement") if one.path == "mixture.verifiers")
    typed = setting_fields.parse_field_text(setting, "golden: 1, checks: 1")
    changed = presets.change_preset(preset, {"mixture": {"verifiers": typed}})
    assert isinstance(changed.config, Reinforcement)
    assert changed.config.mixture.verifiers == {"golden": 1, "checks": 1}
    with pytest.raises(InputError, match=r"mixture\.verifiers"):
        presets.change_preset(preset, {"mixture": {"verifiers": {"poem": 1}}})
