"""Texts for bash that were written on Windows. A real bash verifies the rules of bash's grammar."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from anyshell.shells.from_windows import LONGEST, for_bash

if TYPE_CHECKING:
    from pathlib import Path

CHANGED = {
    "a >nul": "a >/dev/null",
    "a>NUL": "a>/dev/null",
    "a 2>nul": "a 2>/dev/null",
    "a 2> Nul; b": "a 2> /dev/null; b",
    "a &>NUL": "a &>/dev/null",
    "a &>>nul && b": "a &>>/dev/null && b",
    "a >nul 2>&1": "a >/dev/null 2>&1",
    "a 1>nul 2>nul|b": "a 1>/dev/null 2>/dev/null|b",
    "a >& nul": "a >& /dev/null",
    "a >| nul": "a >| /dev/null",
    "(a >nul)": "(a >/dev/null)",
    "$(a 2>nul)": "$(a 2>/dev/null)",
    "f() { a >nul; }\nf": "f() { a >/dev/null; }\nf",
    "if a >nul; then b; fi": "if a >/dev/null; then b; fi",
    "case x in a) b >nul ;; esac": "case x in a) b >/dev/null ;; esac",
    "[[ -n x ]] && a >nul": "[[ -n x ]] && a >/dev/null",
    "echo $((1 > 2)) >nul": "echo $((1 > 2)) >/dev/null",
    "echo '>nul' >nul": "echo '>nul' >/dev/null",
    'echo "$(b ")" "x")" >nul': 'echo "$(b ")" "x")" >/dev/null',
    "echo ${x:-a} ${x#a} $# >nul # >nul": "echo ${x:-a} ${x#a} $# >/dev/null # >nul",
    "cat <<E >nul\na >nul\nE\nb >nul": "cat <<E >/dev/null\na >nul\nE\nb >/dev/null",
    "cat <<-'E' <<F\n\ta >nul\n\tE\nb >nul\nF\nc >nul": "cat <<-'E' <<F\n\ta >nul\n\tE\nb >nul\nF\nc >/dev/null",
    "cat <<<x >nul": "cat <<<x >/dev/null",
    "a \\\n >nul": "a \\\n >/dev/null",
    "a >nul\r\nb\r\n": "a >/dev/null\nb\n",
    "echo a\r\necho b": "echo a\necho b",
}

UNCHANGED = [
    *(
        "",
        "a",
        "nul",
        "a nul",
        "a >null",
        "a >nul.txt",
        "a >./nul",
        "a > /nul",
        "a >nul/x",
        "a >$nul",
        "a >nulls",
        "a <nul",
    ),
    *(
        "echo '>nul'",
        'echo ">nul"',
        "echo $'>nul'",
        "echo \\>nul",
        "echo `a >nul`",
        "# >nul",
        "a # >nul",
        "a;# >nul",
    ),
    *(
        'echo "$(a >nul)"',
        "[[ a >nul ]]",
        "(( a >nul ))",
        "echo $(( a >nul ))",
        "${x:->nul}",
        "echo ${x:-'>nul'} ${x:->nul}",
    ),
    *("cat <<E\n>nul\nE\n", "cat <<'E'\n>nul\nE", "cat <<-E\n\t>nul\n\tE", "cat <<\\E\n>nul\nE"),
    *(
        "echo 'a\n>nul\n'",
        'echo "a\n>nul\n"',
        "cat <<E\na >nul\n",
        "echo ' >nul",
        'echo " >nul',
        "echo ` >nul",
        "((a >nul",
    ),
    *("cat <<$E >nul\n$E", "echo a\r\necho b\n", "a=$[b >nul ]", 'echo "${x:-"}" >nul "'),
]


@pytest.mark.parametrize("text", CHANGED, ids=ascii)
def test_redirect_to_nul_goes_to_the_null_device(text: str) -> None:
    assert for_bash(text) == CHANGED[text]
    assert for_bash(for_bash(text)) == for_bash(text)


@pytest.mark.parametrize("text", UNCHANGED, ids=ascii)
def test_text_without_habits_of_windows_is_unchanged(text: str) -> None:
    assert for_bash(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("nul>&|<2 \t\n'\"`$(){}[]#\\;aE-"), max_size=60))
def test_text_without_a_redirect_to_nul_is_unchanged(text: str) -> None:
    assume("nul" not in text)
    assert for_bash(text) == text


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_characters="'\r", exclude_categories=["Cs"])))
def test_quoted_text_is_unchanged(inside: str) -> None:
    text = f"echo '{inside} >nul ' <<'THE END'\n{inside} >nul\nTHE END\n"
    text = text.replace("THE END", "THE-END")
    if "\nTHE-END\n" not in f"\n{inside}\n" and "\n" not in inside:
        assert for_bash(text + "a >nul") == text + "a >/dev/null"
    assert for_bash(text) == text


PARTS = [
    *(
        ">nul",
        "2>nul ",
        " >nul\n",
        "'",
        '"',
        "`",
        "\\",
        "$(",
        "${",
        "((",
        "))",
        "(",
        ")",
        "{ ",
        "}",
        "[[ ",
        " ]]",
        "#",
        " # ",
    ),
    *(
        "<<E\n",
        "\nE\n",
        "<<'E'",
        "\n",
        ";",
        "&&",
        "|",
        "echo ",
        "x",
        "$'",
        "$",
        "case x in x) ",
        ";; esac",
        "<<<",
        "$[",
        "]",
    ),
]


@pytest.mark.skipif(os.name != "posix", reason="asks a bash that can start programs")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
@example("echo '>nul'\necho \">nul\" >nul\ncat <<E\n>nul\nE\n")
@example("echo \"$(echo ')' >nul)\" >nul")
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_changed_text_behaves_the_same_except_for_the_file_nul(tmp_path: Path, text: str) -> None:
    """A wrong change would change the result: each text runs in its original and in its changed form."""
    bash = shutil.which("bash")
    assert bash is not None
    changed = for_bash(text)
    assume(changed != text)
    assume("$$" not in text)  # the value differs each time
    results = []
    for each in (text, changed):
        for left in tmp_path.iterdir():
            left.unlink()
        done = subprocess.run(
            [bash, "--norc", "--noprofile", "-c", each],
            cwd=tmp_path,
            env={"PATH": "", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        results.append((done.returncode, done.stdout, sorted(left.name for left in tmp_path.iterdir())))
    was, became = results
    assert became[:2] == was[:2]
    assert [name for name in became[2] if name != "nul"] == [name for name in was[2] if name != "nul"]


@pytest.mark.parametrize(
    "part", ["'", '"', "$(", "((", "`", "<<E\n", "${", "a ", "#", "[[ ", "\\", "$'", "\n", ">nul "], ids=ascii
)
def test_conversion_time_is_bounded(part: str) -> None:
    text = part * (LONGEST // len(part) - 10) + " >nul"
    assert for_bash(text) in (text, text.replace("nul", "/dev/null"))


def test_oversized_text_is_unchanged() -> None:
    text = "#" * LONGEST + "\na >nul"
    assert for_bash(text) == text
