"""Prompts that one batch tries instead of the default ones: validated before, identified by the hash of their text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from synthesis.errors import InputError, PromptError
from synthesis.prompts import HERE, Prompt, load_prompt, tried_prompts

FORMS = ("reply", "examples")
"""Folders that no batch may try: how a reply is read depends on them."""
MOST_CHARS = 20_000
MOST_TRIED = 20
LEAST_CHARS = 20


def list_triable_prompts() -> list[str]:
    """Return the names (`stage/name`) of the prompts for which a batch may have its own text."""
    names = (f"{path.parent.name}/{path.stem}" for path in HERE.glob("*/*.md"))
    return sorted(name for name in names if name.partition("/")[0] not in FORMS)


def get_triable_prompt(name: str) -> Prompt:
    """Return the default prompt. Raise InputError for one that cannot be tried."""
    stage, _, prompt_name = name.partition("/")
    try:
        if stage in FORMS:
            raise PromptError("a form")
        return load_prompt(stage, prompt_name)
    except PromptError:
        raise InputError(f"There is no prompt {name[:80]!r} that a batch could try. Choose one of the list.") from None


def check_trial(name: str, text: str) -> str:
    """Return the text as a batch stores it. Raise InputError with the change needed: placeholders, length,
    characters."""
    stands = get_triable_prompt(name)
    text = text.replace("\r\n", "\n").strip("\n")
    if len(text.strip()) < LEAST_CHARS:
        raise InputError(
            f"The prompt {name} says next to nothing. Write what the model is to do, or leave it as it is."
        )
    if len(text) > MOST_CHARS:
        raise InputError(
            f"The prompt {name} has {len(text):,} characters; at most {MOST_CHARS:,} are allowed. Shorten it."
        )
    bad = next((sign for sign in text if ord(sign) < 32 and sign not in "\n\t"), "")
    if bad or any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
        raise InputError(f"The prompt {name} holds a sign that is no text ({bad!r}). Take it out.")
    own_variables = Prompt(name, text, "").variables
    missing, unknown = stands.variables - own_variables, own_variables - stands.variables
    if missing or unknown:
        faults = [f"without {_format_places(missing)}, which the stage fills in"] * bool(missing)
        faults += [f"with {_format_places(unknown)}, which nobody fills in"] * bool(unknown)
        raise InputError(f"The prompt {name} cannot be used: it is {' and '.join(faults)}.")
    return text


def _format_places(names: frozenset[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in sorted(names))


def build_trial_prompt(name: str, text: str) -> Prompt:
    """Return a prompt of its own text, with the hash that a file of it would have."""
    text = text.rstrip("\n")
    return Prompt(name, text, hashlib.sha256(f"{text}\n".encode()).hexdigest())


def check_trials(texts: Mapping[str, str]) -> dict[str, str]:
    """Return those that differ from the default prompts. Raise InputError if one is not valid."""
    if len(texts) > MOST_TRIED:
        raise InputError(f"A batch tries up to {MOST_TRIED} prompts; {len(texts)} were given.")
    checked = {name: check_trial(name, text) for name, text in texts.items()}
    return {name: text for name, text in sorted(checked.items()) if text != get_triable_prompt(name).text}


@contextmanager
def use_trial_prompts(texts: Mapping[str, str]) -> Iterator[None]:
    """Use these texts as the prompts meanwhile; also in tasks that are begun here."""
    token = tried_prompts.set({name: build_trial_prompt(name, text) for name, text in texts.items()})
    try:
        yield
    finally:
        tried_prompts.reset(token)
