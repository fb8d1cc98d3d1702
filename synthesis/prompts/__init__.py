"""Prompts: one folder a stage, one plain file a prompt, each known by its hash.

`{{name}}` stands for a variable. Values go in as they are and are not looked at again, so that text of an LLM, a
tool or a person can bring no placeholder of its own.

A line `---` ends what is the same in every call of a stage: instructions, and the form of the reply, which is put
there. What varies follows: first the environment, then the item, last what belongs to one call alone. So a server
that keeps prefixes reads the common part once.
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
        """The text with every variable filled in. Raises PromptError for one that is missing or not used."""
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


def with_form(words: str, form: str) -> str:
    """Return a prompt with the form of the reply: behind its fixed part, or at the end if it has none."""
    fixed, mark, rest = words.partition(FORM_PLACE)
    return f"{fixed}{form}{SEPARATOR}{rest}\n\n{prompt('reply', 'now').render()}" if mark else f"{words}\n\n{form}"


def prompt(stage: str, name: str) -> Prompt:
    """The prompt in `synthesis/prompts/STAGE/NAME.md`, or the text that a batch tries in its place (`trial.py`).

    Raises PromptError where there is none.
    """
    own = tried_prompts.get().get(f"{stage}/{name}")
    return own if own is not None else standing(stage, name)


@functools.cache
def standing(stage: str, name: str) -> Prompt:
    """The prompt as its file has it. Raises PromptError where there is none."""
    path = HERE / stage / f"{name}.md"
    if not (stage + name).replace("_", "").isalnum() or not path.is_file():
        raise PromptError(f"There is no prompt {stage}/{name}.")
    data = path.read_bytes()
    return Prompt(f"{stage}/{name}", data.decode("utf-8").rstrip("\n"), hashlib.sha256(data).hexdigest())


tried_prompts: ContextVar[Mapping[str, Prompt]] = ContextVar("prompts that a batch tries", default={})  # noqa: B039


@functools.cache
def has_prompt(stage: str, name: str) -> bool:
    """Whether there is a prompt of this name."""
    try:
        prompt(stage, name)
    except PromptError:
        return False
    return True


@contextmanager
def noting() -> Iterator[dict[str, str]]:
    """Every prompt that is filled in meanwhile, by name with its hash; in tasks that are begun here too."""
    noted: dict[str, str] = {}
    token = _filled.set(noted)
    try:
        yield noted
    finally:
        _filled.reset(token)


def hashes(*used: Prompt) -> dict[str, str]:
    """What provenance keeps: each prompt's name with its hash."""
    return {template.name: template.sha256 for template in used}


def fenced(label: str, text: str) -> str:
    """Put text that nobody trusts between two equal lines that it cannot hold itself, so that it cannot close them."""
    line = fence_line(label, text)
    return f"{line}\n{text}\n{line}"


def fence_line(label: str, text: str) -> str:
    """Return a line that the text does not hold. Its number follows from the text: digits cost few tokens."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    while (line := f"=== {label} {int.from_bytes(digest) % 10**9:09} ===") in text:
        digest = hashlib.sha256(digest).digest()
    return line
