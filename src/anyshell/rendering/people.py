"""Notices for people, without the advice to models."""

from __future__ import annotations

import re

_SENTENCE = re.compile(r"(?<=[.?]) (?=[A-Z])")

_ADVICE = re.compile(
    "|".join(
        (
            r"Do not (?:call|run|send) (?:it )?again(?: unless asked to|; tell the user)?\.",
            r"Do not call it again; tell the user\.",
            r"Do not (?:work around it|touch known_hosts); (?:tell the user|ask what to do instead)\.",
            r"Do not (?:run|call|send) it again(?: unless asked to)?\.",
            r"Do not (?:make one up|rerun)\.",
            r"Check (?:that|what it did) before repeating it\.",
            r"See its output before sending any of it again\.",
            r"Try again with a longer timeout\.",
            r"If it was making progress, .*",
            r"If it waited for input, use .*",
            r"If you were given no password for this, .*",
            r"That is the longest timeout: split the work\.",
            r"Start, use and stop a server in one call\.",
            r"Answer with job, .*",
            r"Use job, secret: .*",
            r"To see it, add \| tr .*",
            r"Search that; do not rerun\.",
            r"Decide anew\.",
        )
    ),
    re.DOTALL,
)
"""Whole sentences that are nothing but advice to a model."""

_CLAUSES = (
    (re.compile(r"\A(It likely waited at \".*\"): use [^\"]*\.\Z", re.DOTALL), r"\1."),
    (
        re.compile(
            r": (?:judge by its (?:output|text)|change its input or arguments|read or stop it with job)\.\Z"
        ),
        ".",
    ),
    (re.compile(r"; use a program's own options\.\Z"), "."),
)
"""Clauses at the end of sentences that are nothing but advice to a model, with their replacements."""

_QUOTED = re.compile(r"\bthe user says: ", re.IGNORECASE)


def for_people(notice: str) -> str:
    """Return a notice without its advice; empty where all is advice. A notice that quotes a person is unchanged."""
    own, *quoted = _QUOTED.split(notice, maxsplit=1)
    if quoted:
        return notice
    kept = []
    for sentence in _SENTENCE.split(own):
        if _ADVICE.fullmatch(sentence):
            continue
        for pattern, short in _CLAUSES:
            sentence = pattern.sub(short, sentence)
        kept.append(sentence)
    return " ".join(kept)
