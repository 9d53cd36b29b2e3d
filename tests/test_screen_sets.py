"""The screen compared with recordings and assertions of other terminals, as `screen_sets` reads these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from . import screen_sets
from .screen_sets import SETS, Comparison

EXPLANATION = Path(__file__).parents[1] / "docs" / "explanation" / "what-the-text-of-a-terminal-is.md"

DIFFERENCES: dict[str, dict[str, str]] = {
    "alacritty": {
        "decaln_reset": "DECALN",
        "selective_erasure": "Selective erasure",
    },
    "xterm.js": {
        "t0055-EL": "Erasing at the margin",
        "t0060-DECSC": "DECRC",
        "t0061-CSI_s": "DECRC",
        "t0084-CBT": "CBT",
        "t0103-reverse_wrap": "Reverse wrap",
    },
    "libvterm": {
        "11state_movecursor": "HPB and VPB",
        "13state_edit": "IL",
        "15state_mode": "Left and right margins",
        "28state_dbl_wh": "Lines of double width",
        "63screen_resize": "Another size",
        "69screen_reflow": "Another size",
    },
}
"""The cases with a different screen here, each with the row of the explanation's table that has the reason."""

LEAST = {"alacritty": (43, 41), "xterm.js": (76, 71), "libvterm": (385, 359)}
"""For each set, the least number of compared cases, and the least number of cases that match."""


@pytest.mark.parametrize(
    ("name", "compare"),
    [
        ("alacritty", screen_sets.compared_with_alacritty),
        ("xterm.js", screen_sets.compared_with_xterm_js),
        ("libvterm", screen_sets.compared_with_libvterm),
    ],
    ids=list(SETS),
)
def test_screen_matches_recordings_of_other_terminals(name: str, compare: object) -> None:
    assert callable(compare)
    found = compare()
    assert isinstance(found, Comparison)
    unexplained = [one for one in found.differences if one.case.split(":")[0] not in DIFFERENCES[name]]
    assert unexplained == []
    cases, same = LEAST[name]
    assert found.cases >= cases
    assert found.cases - len(found.differences) >= same


def test_explanation_has_a_reason_for_every_difference() -> None:
    rows = dict(
        re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", EXPLANATION.read_text(encoding="utf-8"), re.MULTILINE)
    )
    for cases in DIFFERENCES.values():
        for case, row in cases.items():
            assert f"`{case}`" in rows[row]
    named = re.findall(
        r"`([0-9a-zA-Z_-]+)`",
        " ".join(rows[row] for row in {r for c in DIFFERENCES.values() for r in c.values()}),
    )
    assert sorted(named) == sorted(case for cases in DIFFERENCES.values() for case in cases)
