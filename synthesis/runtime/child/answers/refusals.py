"""Refusals in a text: that something cannot be done because the means for it are missing, and claims that it was done.

A refusal is read sentence by sentence. It is clear where it names the means that are missing ("there is no tool for
that"), or says that the thing itself cannot be done and gives no other reason ("I cannot cancel bookings").
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .lexicon import PAUSES, SENTENCE_ENDS, TURNS, words
from .statements import CannotTell
from .tokens import Token

_NOT = words("not no never neither nor none nobody without nothing hardly")
_UNABLE = words("cannot cant can't couldn't couldnt unable impossible incapable unavailable unsupported")
_ABLE = words("able possible capable can could way")
"""Behind a negation they say the same as `_UNABLE`."""
_LACKS = words("lack lacks lacking lacked missing")
_GONE = words("unavailable unsupported missing absent lacking gone")
_MEANS = words(
    "tool tools function functions functionality functionalities feature features capability capabilities parameter "
    "parameters argument arguments command commands operation operations method endpoint api instrument"
)
_WEAK_MEANS = words("option options ability means way ways field setting possibility permission")
"""Means where what they are for is said: an option to move it, not an option on Friday."""
_FOR = words("to for that which of in here with where")
_OFFER = words(
    "available provided provide provides support supports supported allow allows allowed let lets offer offers offered "
    "include includes included cover covers exist exists there present have has able possible do does permit permits "
    "given accessible enabled part take takes accept accepts"
)
_BY = words("with using through via without given by from among")
_NO_MATTER = words(
    "need needed necessary required problem problems issue issues trouble doubt error errors failed only"
)
"""`no tool failed`, `no need for a tool`: nothing is missing."""
_LOOKS = words("find finding look looking search searching see seeing check checking show list tell")
_CAUSES = words("because since due owing so therefore hence thus as given reason")
_FACTS = words(
    "already full closed taken expired over late invalid unknown booked exist exists exceeds exceeded limit rule rules "
    "policy found belongs wrong blocked forbidden allowed past"
)
"""In a sentence beside a refusal they are a reason of another kind."""
_UNSURE = words("maybe perhaps possibly might guess unsure uncertain whether")
_UNSURE_PAIRS = frozenset([("not", "sure"), ("not", "certain"), ("don't", "know"), ("not", "know"), ("no", "idea")])
_BEFORE = words("first initially earlier originally previously until beginning")
_DONE = words("done completed complete finished successful successfully succeeded sorted resolved handled arranged set")
_OTHERS = words("else rest other others remaining except apart otherwise instead nothing none")
_IDLE = words("if once when whether would could should can may might must please need needs want wanted asked to")
_AUXILIARY = words("have has had i've we've was were is are been being got now just already gets get been it's that's")
_IRREGULAR = words(
    "sent paid took taken put lent sold wrote written gave given made set kept found told brought sent let left"
)
_NEAR, _FAR = 5, 7


def refuses(tokens: Sequence[Token], about: Sequence[str]) -> bool:
    """Whether the text says that what it is about cannot be done for want of the means. `about`: words for the act, or
    their beginnings (`cancel*`). Raises CannotTell."""
    sentences = _sentences(tokens)
    stems = [part.lower().rstrip("*") for part in about if part.strip("* ")]
    found = [_strength(one, stems) for one in sentences]
    best = max(found, default=0)
    claims = [place for place, one in enumerate(sentences) if _claims(one, stems)]
    if not best:
        return False
    if claims:
        last = max(place for place, strength in enumerate(found) if strength)
        if claims[-1] >= last and _claimed_last(sentences[claims[-1]], stems):
            return False
        raise CannotTell("it is said to be done, and that it cannot be done")
    if all(_is_unsure(one) for one, strength in zip(sentences, found, strict=True) if strength == best):
        raise CannotTell("it is not said for certain that it cannot be done")
    if best == _CLEAR:
        return True
    if any(_gives_other_reason(one, strength) for one, strength in zip(sentences, found, strict=True)):
        return False
    if best == _VAGUE:
        raise CannotTell("it is not said what cannot be done, or why")
    return True


_VAGUE, _OF_ACT, _CLEAR = 1, 2, 3


def _sentences(tokens: Sequence[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for at, token in enumerate(tokens):
        found[-1].append(token)
        glued = at + 1 < len(tokens) and tokens[at + 1].glued
        if token.raw in SENTENCE_ENDS and not (token.raw == "." and glued):
            found.append([])
    return [one for one in found if any(token.kind == "word" for token in one)]


def _texts(sentence: Sequence[Token]) -> list[str]:
    """The words of a sentence; contractions of `not` as they are written."""
    return [token.text for token in sentence if token.kind == "word"]


def _negates(text: str) -> bool:
    return text in _NOT or text.endswith("n't") or text in ("dont", "doesnt", "isnt", "arent", "wont", "couldnt")


def _strength(sentence: Sequence[Token], stems: Sequence[str]) -> int:
    """How clearly the sentence refuses: not at all, vaguely, the act itself, or by naming the missing means."""
    said = _texts(sentence)
    if sentence[-1].raw == "?" or _taken_back(sentence):
        return 0
    if _means_missing(said):
        return _CLEAR
    strength = 0
    for at, text in enumerate(said):
        if _cannot(said, at):
            behind = said[at + 1 : at + 1 + _FAR]
            act = next((place for place, word in enumerate(behind) if _is_about(word, stems)), None)
            looked = any(word in _LOOKS for word in behind[:act])
            before = any(_is_about(word, stems) for word in said[max(0, at - _FAR) : at])
            plain = (act is not None or (before and text not in _UNABLE - {"impossible"})) and not looked
            strength = max(strength, _OF_ACT if plain else _VAGUE)
    return strength


def _cannot(said: Sequence[str], at: int) -> bool:
    """Whether the word says that something cannot be done, and is not itself denied (`not impossible`)."""
    text = said[at]
    before = said[at - 1] if at else ""
    if text in _UNABLE:
        return not _negates(before)
    if text == "can" or text == "could":
        return said[at + 1 : at + 2] == ["not"]
    return text in _ABLE and any(_negates(word) for word in said[max(0, at - 3) : at])


def _taken_back(sentence: Sequence[Token]) -> bool:
    """`I could not do it at first, but then ...`: what was once so is no refusal."""
    said = _texts(sentence)
    turns = [at for at, text in enumerate(said) if text in TURNS]
    return any(at and any(text in _BEFORE for text in said[max(0, at - 6) : at]) for at in turns)


def _means_missing(said: Sequence[str]) -> bool:
    for at, text in enumerate(said):
        weak = text in _WEAK_MEANS and said[at + 1 : at + 2] and said[at + 1] in _FOR
        behind = [word for word in said[at + 1 : at + 3] if word not in ("is", "was", "were", "are")]
        idle = bool(behind) and behind[0] in _NO_MATTER
        if not (text in _MEANS or weak) or idle:
            continue
        behind = list(said[at + 1 : at + 4])
        if behind[:1] and behind[0] in _FOR and any(word in _LOOKS for word in behind[1:]):
            continue
        if _denied_before(said, at) or _denied_behind(said, at) or _by_means(said, at):
            return True
    return False


def _denied_before(said: Sequence[str], at: int) -> bool:
    """`no tool`, `do not have any tool`, `lack the option to`, `none of my tools`."""
    for place in range(max(0, at - _FAR), at):
        text = said[place]
        if not (_negates(text) or text in _LACKS or text in ("cannot", "couldn't", "can't")):
            continue
        between = list(said[place + 1 : at])
        if between[-1:] and between[-1] in ("needed", "necessary", "required"):
            between.pop()
        apart = any(word in _NO_MATTER or word in ("but", "and", "used", "using", "uses") for word in between)
        if len(between) <= _NEAR and not apart:
            return True
    return False


def _denied_behind(said: Sequence[str], at: int) -> bool:
    """`the tool is not available`, `my tools do not support this`, `the tool for it is missing`."""
    for place in range(at + 1, min(at + 3 + _FAR, len(said))):
        text = said[place]
        if text in _GONE:
            return True
        if _negates(text) or text in ("cannot", "can't"):
            return any(word in _OFFER for word in said[place + 1 : place + 4])
        if text in TURNS or text == "and":
            return False
    return False


def _by_means(said: Sequence[str], at: int) -> bool:
    """`not possible with the tools that I have`, `outside of my functions`."""
    near = said[max(0, at - 4) : at]
    return (
        "outside" in near
        or "beyond" in near
        or (any(word in _BY for word in near) and any(_cannot(said, place) for place in range(at)))
    )


def _is_about(word: str, stems: Sequence[str]) -> bool:
    return any(word.startswith(stem) for stem in stems)


def _is_unsure(sentence: Sequence[Token]) -> bool:
    said = _texts(sentence)
    pairs = pairwise(said)
    return any(text in _UNSURE for text in said) or any(pair in _UNSURE_PAIRS for pair in pairs)


def _gives_other_reason(sentence: Sequence[Token], strength: int) -> bool:
    """Whether something else than missing means is said to be in the way."""
    said = _texts(sentence)
    if not strength:
        return any(_negates(text) or text in _FACTS for text in said) and not set(said) & {"nothing", "changed"}
    joined = any(token.raw in (":", ";", "-", "\u2013", "\u2014", "(") for token in sentence[:-1] if not token.glued)
    joined = joined or any(token.raw in (":", ";", "\u2014") for token in sentence[:-1])
    return joined or any(text in _CAUSES or text in _FACTS for text in said)


def _clauses(sentence: Sequence[Token]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for token in sentence:
        if token.raw in PAUSES or token.text in TURNS or token.text in ("and", "so", "then", "-"):
            found.append([])
        if token.kind == "word":
            found[-1].append(token.text)
    return [clause for clause in found if clause]


def _claims(sentence: Sequence[Token], stems: Sequence[str]) -> bool:
    """Whether a clause says that the act was done."""
    return sentence[-1].raw != "?" and any(_claim(clause, stems) for clause in _clauses(sentence))


def _claimed_last(sentence: Sequence[Token], stems: Sequence[str]) -> bool:
    """Whether what the sentence says last is that it was done."""
    clauses = _clauses(sentence)
    claimed = [place for place, clause in enumerate(clauses) if _claim(clause, stems)]
    refused = [place for place, clause in enumerate(clauses) if any(map(_negates, clause)) or set(clause) & _UNABLE]
    return bool(claimed) and claimed[-1] >= max(refused, default=-1)


def _claim(clause: Sequence[str], stems: Sequence[str]) -> bool:
    if any(_negates(text) or text in _UNABLE or text in _LACKS for text in clause) or set(clause) & _OTHERS:
        return False
    for at, text in enumerate(clause):
        before = clause[max(0, at - 3) : at]
        if set(before) & _IDLE or (text in _DONE and text == "set" and before[-1:] != ["all"]):
            continue
        if text in _DONE and not set(clause[:at]) & _IDLE:
            return True
        past = text.endswith("ed") or text in _IRREGULAR
        if past and _is_about(text, stems):
            by = not before or bool(set(before) & _AUXILIARY) or bool({"i", "we"} & set(before))
            if by and not set(clause[:at]) & _IDLE:
                return True
    return False
