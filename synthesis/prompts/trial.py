"""Prompts that one batch tries in place of the standing ones: checked before, known by the hash of their own text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from synthesis.errors import InputError, PromptError
from synthesis.prompts import HERE, Prompt, standing, tried_prompts

FORMS = ("reply", "examples")
"""Folders that no batch may try: how a reply is read depends on them."""
MOST_CHARS = 20_000
MOST_TRIED = 20
LEAST_CHARS = 20


def triable() -> list[str]:
    """Names (`stage/name`) of the prompts that a batch may have a text of its own of."""
    names = (f"{path.parent.name}/{path.stem}" for path in HERE.glob("*/*.md"))
    return sorted(name for name in names if name.partition("/")[0] not in FORMS)


def standing_prompt(name: str) -> Prompt:
    """The prompt as it stands. Raises InputError for one that cannot be tried."""
    stage, _, own = name.partition("/")
    try:
        if stage in FORMS:
            raise PromptError("a form")
        return standing(stage, own)
    except PromptError:
        raise InputError(f"There is no prompt {name[:80]!r} that a batch could try. Choose one of the list.") from None


def checked_trial(name: str, text: str) -> str:
    """The text as a batch keeps it. Raises InputError with what to change: placeholders, length, signs."""
    stands = standing_prompt(name)
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
    own = Prompt(name, text, "").variables
    missing, unknown = stands.variables - own, own - stands.variables
    if missing or unknown:
        faults = [f"without {_places(missing)}, which the stage fills in"] * bool(missing)
        faults += [f"with {_places(unknown)}, which nobody fills in"] * bool(unknown)
        raise InputError(f"The prompt {name} cannot be used: it is {' and '.join(faults)}.")
    return text


def _places(names: frozenset[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in sorted(names))


def tried(name: str, text: str) -> Prompt:
    """A text of its own, with the hash that a file of it would have."""
    text = text.rstrip("\n")
    return Prompt(name, text, hashlib.sha256(f"{text}\n".encode()).hexdigest())


def checked_trials(texts: Mapping[str, str]) -> dict[str, str]:
    """Those that differ from the standing prompts. Raises InputError."""
    if len(texts) > MOST_TRIED:
        raise InputError(f"A batch tries up to {MOST_TRIED} prompts; {len(texts)} were given.")
    checked = {name: checked_trial(name, text) for name, text in texts.items()}
    return {name: text for name, text in sorted(checked.items()) if text != standing_prompt(name).text}


@contextmanager
def trying(texts: Mapping[str, str]) -> Iterator[None]:
    """These texts are the prompts meanwhile; in tasks that are begun here too."""
    token = tried_prompts.set({name: tried(name, text) for name, text in texts.items()})
    try:
        yield
    finally:
        tried_prompts.reset(token)
