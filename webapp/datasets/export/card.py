"""Card of an exported dataset: README.md, as the Hugging Face Hub reads it, with the same words for people.

It describes what was frozen, but not when or by whom, so that a second export has the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from synthesis.contracts import Frozen
from training.dataset import DatasetReport, Manifest, SideName
from training.dataset.files import SIDES
from webapp.common.templatetags.show import plain
from webapp.datasets.export.record_shapes import FORMS, FormName
from webapp.datasets.preview import MEANINGS
from webapp.scenarios.verifiers import VERIFIER_NAMES

CARD = "README.md"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
IDENTIFIER = re.compile(r"[a-z0-9][a-z0-9.+-]{1,49}")


class ExportedFile(Frozen):
    """A file of an export; only a side has rows."""

    path: str
    rows: int
    bytes: int
    sha256: str


def build_dataset_card(
    manifest: Manifest, source: str, form: FormName, loaded: str, files: Sequence[ExportedFile], unfit: int = 0
) -> str:
    """Return the card's text. `source` is the dataset's (`selection` or `file`), `files` are those of the sides, or
    a package that holds them; `loaded` are the lines that load them, `unfit` counts rows that the form left out."""
    report = manifest.report or DatasetReport()
    unfitted = {f"do not fit {FORMS[form].label}; manifest.json names them": unfit} if unfit else {}
    by_side = {side: file for side in SIDES for file in files if file.path.rpartition(".")[0] == side}
    holds = FORMS[form].holds[manifest.kind]
    parts = [
        _build_front_matter(manifest, report, by_side),
        f"# {_escape_text(manifest.name)}",
        f"{_escape_text(manifest.sentence)}. {holds[:1].upper()}{holds[1:]}.",
        "## Splits",
        *_describe_splits(manifest),
        "## What was chosen",
        _format_list(
            [f"{_escape_text(what)}: {_escape_text(which)}" for what, which in report.words] or ["not recorded"]
        ),
        "## What was looked at before it was frozen",
        _format_list(list(_describe_checks(manifest, report, source))),
        "## Left out",
        _format_table(("rows", "why"), [(f"{number:,}", why) for why, number in (report.left_out | unfitted).items()]),
        "## Sources and licence",
        _format_table(
            ("source", "rows"), [(name or "not named", f"{rows:,}") for name, rows in report.sources.items()]
        ),
        f"Licence: {_escape_text(report.licence) or 'not stated; check the licence of the sources before you use it'}.",
        "## Loading",
        f"```{'python' if by_side else 'sh'}\n{loaded}\n```",
        "## Hashes",
        f"Content of the dataset (rows of both sides and the split): `{manifest.sha256}`.",
        _format_table(
            ("file", "bytes", "SHA-256"), [(file.path, f"{file.bytes:,}", f"`{file.sha256}`") for file in files]
        ),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _build_front_matter(manifest: Manifest, report: DatasetReport, by_side: Mapping[SideName, ExportedFile]) -> str:
    """Return what the Hub reads: named splits with their files, licence, size. JSON strings are YAML too."""
    rows = manifest.train.rows + manifest.test.rows
    size = next((name for most, name in SIZES if rows < most), "n>1M")
    lines = ["---", f"pretty_name: {json.dumps(plain(manifest.name), ensure_ascii=False)}"]
    if IDENTIFIER.fullmatch(report.licence):
        lines.append(f"license: {report.licence}")
    elif report.licence:
        lines += ["license: other", f"license_name: {json.dumps(plain(report.licence), ensure_ascii=False)}"]
    else:
        lines.append("license: unknown")
    lines += [f'size_categories: ["{size}"]', f'tags: ["agents", "tool-use", "{manifest.kind}"]']
    lines += ["configs:", "- config_name: default", "  data_files:"] if by_side else []
    for side, file in by_side.items():
        lines += [f"  - split: {side}", f"    path: {file.path}"]
    return "\n".join([*lines, "---"])


def _describe_splits(manifest: Manifest) -> Iterator[str]:
    split, rows = manifest.split, []
    for side, side_facts in (("train", manifest.train), ("test", manifest.test)):
        if side_facts.rows:
            units = f"{side_facts.units:,}" if split.test_share else "not split"
            rows.append((side, f"{side_facts.rows:,}", units, f"{side_facts.environments:,}", f"`{side_facts.sha256}`"))
    yield _format_table(("split", "rows", f"units ({split.unit})", "environments", "SHA-256 of the frozen rows"), rows)
    if not split.test_share:
        yield "Nothing is held out."
        return
    yield (
        f"Split by **{split.unit}**, a share of {split.test_share:g}, seed {split.seed}. {MEANINGS[split.unit]} "
        "A row's side is a hash of its own unit: a larger dataset with this seed moves none to the other side."
    )


def _describe_checks(manifest: Manifest, report: DatasetReport, source: str) -> Iterator[str]:
    executed = report.executed
    if executed is not None:
        yield (
            f"Executed again by the server: {executed.executed:,}; {executed.differing:,} came out otherwise and "
            f"{executed.failed:,} could not be executed, which are left out; {executed.without_reference:,} tasks have "
            "no reference to execute."
        )
    elif source == "file":
        yield "Nothing was executed again: the rows came in a file."
    near = report.near_duplicates
    if near is not None:
        yield (
            f"Near-duplicates between the splits: {near.rows:,} held-out rows (instruction and calls at least "
            f"{near.threshold:g} similar); {near.listed:,} are listed in `near_duplicates.json`."
        )
    elif manifest.test.rows:
        yield "Near-duplicates between the splits were not looked for."
    if report.approval:
        approval_counts = ", ".join(f"{rows:,} {state.replace('_', ' ')}" for state, rows in report.approval.items())
        yield f"Rows by the review state of their task: {approval_counts}."
    if report.verifiers:
        verifier_counts = ", ".join(
            f"{rows:,} by {VERIFIER_NAMES.get(kind, kind)}" for kind, rows in report.verifiers.items()
        )
        yield f"Tasks by what judges them: {verifier_counts}."
    if report.weak:
        yield (
            f"**Weak** (`contains`): in {report.weak:,} of the tasks a check looks for a text in what was said, as "
            "their source does; a denial passes as well."
        )
    if report.environments_to_choose_from is not None:
        yield f"Environments were drawn from {report.environments_to_choose_from:,} that the filter found."
    for apart in report.apart:
        unknown = f"; {apart.unknown:,} of its rows name none" if apart.unknown else ""
        yield (
            f"Shares no {apart.by} with the dataset {_escape_text(apart.name)} (content `{apart.sha256}`), which has "
            f"{apart.names:,}{unknown}."
        )


def _format_list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _format_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None."
    lines = [heads, ["---"] * len(heads), *([_escape_text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape_text(text: str) -> str:
    """Return untrusted text on one line, without markup and hidden characters."""
    return re.sub(r"([|<>\[\]*_\\])", r"\\\1", " ".join(plain(text).split()))
