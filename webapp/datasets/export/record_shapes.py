"""Forms in which a dataset is exported: the purpose of each, the datasets it suits, and how its files are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from synthesis.errors import InputError

FormName = Literal["trl", "sharegpt", "envscaler", "atif", "verifiers"]
FormatName = Literal["jsonl", "parquet", "wheel"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)
ROWS: tuple[FormatName, ...] = ("jsonl", "parquet")


@dataclass(frozen=True)
class RecordForm:
    """A form of records. `holds` describes a record of a dataset, by the kinds that the form suits; the first of
    `formats` is the default."""

    label: str
    holds: dict[str, str]
    why_not: str
    formats: tuple[FormatName, ...] = ROWS

    def suits(self, kind: str) -> bool:
        return kind in self.holds


FORMS: dict[FormName, RecordForm] = {
    "trl": RecordForm(
        "TRL",
        {
            "trajectories": "messages (or prompt and completion) with tools, for SFTTrainer",
            "tasks": "a prompt alone, with the whole task next to it, for GRPOTrainer and other reinforcement learning",
        },
        "",
    ),
    "sharegpt": RecordForm(
        "ShareGPT",
        {"trajectories": "conversations, system and tools, as LlamaFactory reads them"},
        "it holds conversations, and a task has none yet",
    ),
    "envscaler": RecordForm(
        "EnvScaler",
        {"trajectories": "rows of EnvScaler's released SFT data: messages, tools and user messages as JSON text"},
        "EnvScaler's form for SFT holds conversations, and a task has none yet",
    ),
    "atif": RecordForm(
        "ATIF 1.8",
        {"trajectories": "Harbor's trajectories: steps with observations, state changes in extra"},
        "it holds what an agent did, and no task of this dataset has been attempted in it",
    ),
    "verifiers": RecordForm(
        "Verifiers",
        {"tasks": "a taskset to be installed, with the sandbox and checks that reward it, for vf-eval and prime-rl"},
        "it holds tasks to be attempted, and these have been",
        ("wheel",),
    ),
}


def require_fit(form: str, kind: str) -> RecordForm:
    """Return the form of this name. Raises InputError: there is none, or it does not suit datasets of this kind."""
    chosen_form = next((about for name, about in FORMS.items() if name == form), None)
    if chosen_form is None:
        raise InputError(f"form: there is no form {form[:40]!r}; choose one of {', '.join(FORMS)}.")
    if not chosen_form.suits(kind):
        fit = ", ".join(name for name, about in FORMS.items() if about.suits(kind))
        raise InputError(
            f"form: {chosen_form.label} does not suit a dataset of {kind}: {chosen_form.why_not}. Choose {fit}."
        )
    return chosen_form


def require_format(name: str, form: RecordForm) -> FormatName:
    """Return the format of this name, or the form's own for an empty one. Raises InputError: the form has no such
    format."""
    if not name:
        return form.formats[0]
    for format_name in form.formats:
        if format_name == name:
            return format_name
    raise InputError(f"format: {form.label} has no format {name[:40]!r}; choose {' or '.join(form.formats)}.")


LOADED: dict[tuple[str, str], str] = {
    (
        "trl",
        "trajectories",
    ): "trainer = SFTTrainer(model, train_dataset=rows, args=SFTConfig(assistant_only_loss=True))",
    ("trl", "tasks"): 'task = json.loads(rows[0]["rollout"])  # what the prompt of this row is rewarded by',
    ("sharegpt", "trajectories"): "# For LlamaFactory: put `llamafactory` of manifest.json into its dataset_info.json",
    ("envscaler", "trajectories"): 'messages = json.loads(rows[0]["messages"])  # so are tools and user_messages',
    ("atif", "trajectories"): "trajectory = Trajectory.model_validate(rows[0])  # of harbor.models.trajectories",
}


def format_evaluation_command(package: str) -> str:
    """Return the shell command that evaluates a model on an installed package."""
    return f"vf-eval {package} -m MODEL --client.base-url http://127.0.0.1:8000/v1 --client.api-key-var KEY --no-push"


def format_loading_snippet(form: str, kind: str, file_format: str, package: str = "taskset") -> str:
    """Return lines of Python that load the unpacked files; for a package, shell commands."""
    if file_format == "wheel":
        return f"pip install ./{package.replace('-', '_')}-*.whl\n{format_evaluation_command(package)}"
    imports = ["from datasets import load_dataset"]
    imports = [*(["import json", ""] if "json.loads" in LOADED.get((form, kind), "") else []), *imports]
    if file_format == "parquet":
        call = 'load_dataset("parquet", data_files={"train": "train.parquet"})'
    else:
        call = 'load_dataset("json", data_files={"train": "train.jsonl"}, on_mixed_types="use_json")'
    return "\n".join([*imports, "", f'rows = {call}["train"]', LOADED.get((form, kind), "")]).strip()
