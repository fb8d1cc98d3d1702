"""Words and signs by what they do to a statement: end it, deny it, hedge it, correct it."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def listed(text: str) -> list[str]:
    """The words of a text, in order."""
    return text.split()


SENTENCE_ENDS = frozenset(".;!?\n")
ABBREVIATIONS = words("dr mr mrs ms st no nr approx ca vs etc jan feb mar apr jun jul aug sep sept oct nov dec")
PAUSES = frozenset(",:()[]{}\u2014\u2013|")
TURNS = words("but which who whose because while whereas though although since")
NEGATORS = words(
    "not no never neither nor without except excluding cannot cant dont doesnt didnt isnt wasnt wont arent nobody none "
    "nicht kein keine"
)
LESS = frozenset({"instead of", "rather than", "other than", "unlike", "anything but"})
SUPERSEDED = words("old former previous original formerly previously originally")
MOVES = words("moved move moves changed change changes rescheduled postponed shifted brought put switched")
ANYBODY = words("anything anyone anybody any everything everyone everybody every all")
WRONG = words("wrong incorrect false mistaken untrue")
HEDGES = words(
    "maybe perhaps possibly probably presumably likely unlikely unsure uncertain guess guessing suppose supposedly "
    "think believe assume assuming might apparently allegedly seems seem depends depending either somewhere estimate "
    "estimated unclear unknown whichever alternatively"
)
HEDGE_PAIRS = frozenset(
    [
        ("may", "be"),
        ("may", "get"),
        ("may", "have"),
        ("may", "come"),
        ("could", "be"),
        ("not", "sure"),
        ("not", "certain"),
        ("no", "idea"),
        ("don't", "know"),
        ("do", "know"),
        ("cannot", "say"),
        ("can't", "say"),
    ]
)
NEARLY = words(
    "about around roughly approximately approx circa ca nearly almost under between after before since beyond "
    "< > ~ \u2248 \u00b1"
)
BOUNDS = frozenset([("at", "least"), ("at", "most"), ("more", "than"), ("less", "than"), ("up", "to"), ("close", "to")])
AFTERTHOUGHTS = frozenset(
    [
        ("or", "so"),
        ("give", "or"),
        ("more", "or"),
        ("or", "more"),
        ("or", "less"),
        ("or", "later"),
        ("or", "thereabouts"),
        ("-", "ish"),
    ]
)
CORRECTIONS = words("no correction sorry wait actually oops scratch rather")
ARTICLES = words("a an the of table room for only exactly precisely just")
