"""Parameters from models that know the tools of other agents: accepted as meant, or refused with the fix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anyshell.tool import ToolLimits
from anyshell.tool.jobs import params as job_params
from anyshell.tool.params import InvalidParams, ToolFeatures, parse

CORPUS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "parameter_mistakes.json").read_text(encoding="utf-8")
)


def parsed(mistake: dict[str, Any], given: Any) -> object:
    if mistake["tool"] == "job":
        return job_params.parse(given, ToolLimits(), job_params.Offered(terminals=True, secrets=True))
    on = mistake.get("features", ["session", "jobs", "terminals"])
    return parse(given, ToolLimits(), ToolFeatures(**dict.fromkeys(on, True)))


@pytest.mark.parametrize("mistake", CORPUS, ids=lambda mistake: json.dumps(mistake["given"]))
def test_a_mistake_is_understood_or_refused_with_the_fix(mistake: dict[str, Any]) -> None:
    if "means" in mistake:
        meant = parsed(mistake, mistake["means"])
        understood = parsed(mistake, mistake["given"])
        assert understood == meant
        return
    with pytest.raises(InvalidParams) as refused:
        parsed(mistake, mistake["given"])
    said = str(refused.value)
    assert mistake["says"] in said
    assert said.isprintable()
    assert len(said) < 300


def test_corpus_has_enough_mistakes_of_both_kinds() -> None:
    assert len(CORPUS) >= 60
    assert len({json.dumps([mistake["tool"], mistake["given"]]) for mistake in CORPUS}) >= 60
    assert 20 <= sum("means" in mistake for mistake in CORPUS) <= len(CORPUS) - 20
