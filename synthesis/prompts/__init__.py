"""Prompts: one folder per stage, one plain file per prompt, each identified by its hash.

`{{name}}` is a variable. Values are inserted as they are and not scanned again, so that text of an LLM, a tool or a
person can bring no placeholder of its own.

A line `---` ends the part that is the same in every call of a stage: instructions, and the form of the reply, which is
inserted there. The variable part follows: first the environment, then the item, last the data of one call alone. So a
server that caches prefixes reads the common part once.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from synthesis.errors import PromptError

HERE = Path(__file__).resolve().parent
_filled: ContextVar[dict[str, str] | None] = ContextVar("prompts that were filled in", default=None)
_PLACE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
SEPARATOR = "\n\n---\n\n"
FORM_PLACE = "\x1e"
"""A character that marks, in a prompt that is filled in, where the form of the reply is put. No value can bring it."""


@dataclass(frozen=True)
class Prompt:
    """One prompt file. `name` is `stage/name`, `sha256` the hash, in hex, of the file's text before rendering."""

    name: str
    text: str
    sha256: str

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(_PLACE.findall(self.text))

    def render(self, **values: str) -> str:
        """Return the text with every variable filled in. Raise PromptError for one that is missing or not used."""
        missing, unused = self.variables - values.keys(), values.keys() - self.variables
        if missing or unused:
            parts = [f"missing: {', '.join(sorted(missing))}"] * bool(missing)
            parts += [f"not used: {', '.join(sorted(unused))}"] * bool(unused)
            raise PromptError(f"The prompt {self.name} does not fit its variables ({'; '.join(parts)}).")
        if (noted := _filled.get()) is not None:
            noted[self.name] = self.sha256
        fixed, line, rest = self.text.partition(SEPARATOR)
        text = f"{fixed}\n\n{FORM_PLACE}{rest}" if line and not _PLACE.search(fixed) else self.text
        return _PLACE.sub(lambda match: values[match[1]].replace(FORM_PLACE, ""), text)


def insert_form(words: str, form: str) -> str:
    """Return a prompt with the form of the reply: after its fixed part, or at the end if it has none."""
    fixed, mark, rest = words.partition(FORM_PLACE)
    return f"{fixed}{form}{SEPARATOR}{rest}\n\n{get_prompt('reply', 'now').render()}" if mark else f"{words}\n\n{form}"


def get_prompt(stage: str, name: str) -> Prompt:
    """Return the prompt in `synthesis/prompts/STAGE/NAME.md`, or the text that a batch tries instead (`trial.py`).

    Raise PromptError if it does not exist.
    """
    trial_prompt = tried_prompts.get().get(f"{stage}/{name}")
    return trial_prompt if trial_prompt is not None else load_prompt(stage, name)


@functools.cache
def load_prompt(stage: str, name: str) -> Prompt:
    """Return the prompt of its file. Raise PromptError if it does not exist."""
    path = HERE / stage / f"{name}.md"
    if not (stage + name).replace("_", "").isalnum() or not path.is_file():
        raise PromptError(f"There is no prompt {stage}/{name}.")
    data = path.read_bytes()
    return Prompt(f"{stage}/{name}", data.decode("utf-8").rstrip("\n"), hashlib.sha256(data).hexdigest())


tried_prompts: ContextVar[Mapping[str, Prompt]] = ContextVar("prompts that a batch tries", default={})  # noqa: B039


@functools.cache
def has_prompt(stage: str, name: str) -> bool:
    """Return whether a prompt of this name exists."""
    try:
        get_prompt(stage, name)
    except PromptError:
        return False
    return True


@contextmanager
def record_prompts() -> Iterator[dict[str, str]]:
    """Yield the prompts that are filled in meanwhile, by name with their hash; also in tasks that are begun here."""
    noted: dict[str, str] = {}
    token = _filled.set(noted)
    try:
        yield noted
    finally:
        _filled.reset(token)


def map_prompt_hashes(*used: Prompt) -> dict[str, str]:
    """Return each prompt's name with its hash, for provenance."""
    return {template.name: template.sha256 for template in used}


def fence_text(label: str, text: str) -> str:
    """Put untrusted text between two equal lines that it cannot contain itself, so that it cannot close them."""
    line = build_fence_line(label, text)
    return f"{line}\n{text}\n{line}"


def build_fence_line(label: str, text: str) -> str:
    """Return a line that the text does not contain. Its number follows from the text: digits cost few tokens."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    while (line := f"=== {label} {int.from_bytes(digest) % 10**9:09} ===") in text:
        digest = hashlib.sha256(digest).digest()
    return line
