"""Recognised forms of a command's text. The use of the result is tested in test_rewrite.py."""

from __future__ import annotations

import pytest

from anyshell.shells.syntax import LONGEST, LeadingCd, leading_cd


@pytest.mark.parametrize(
    ("text", "directory", "rest"),
    [
        ("cd a && b", "a", " b"),
        ("cd a&&b", "a", "b"),
        (" \tcd\ta\t&& b", "a", " b"),
        ("cd ../a/./b && c", "../a/./b", " c"),
        ("cd 'a b' && c", "a b", " c"),
        ('cd "a b" && c', "a b", " c"),
        ("cd a\\ b && c", "a b", " c"),
        ("cd a'$b'\"*\"\\? && c", "a$b*?", " c"),
        ("cd '~' && c", "~", " c"),
        ("cd ordner/über && c", "ordner/über", " c"),
        ("cd a && b\n", "a", " b\n"),
        ("cd a && b | c && d", "a", " b | c && d"),
        ("cd a && (b; c & d || e)", "a", " (b; c & d || e)"),
        ("cd a && { b; c; }", "a", " { b; c; }"),
        ("cd a && f() { b; } && f", "a", " f() { b; } && f"),
        ('cd a && echo "$(b; echo ")")"', "a", ' echo "$(b; echo ")")"'),
        ("cd a && echo $((1 + 2)) ${X} ${Y:-z} $# $$", "a", " echo $((1 + 2)) ${X} ${Y:-z} $# $$"),
        ("cd a && b >c 2>&1 <d", "a", " b >c 2>&1 <d"),
        ("cd a && diff <(b) <(c)", "a", " diff <(b) <(c)"),
        ("cd a && awk '{ print; x } # & y' b", "a", " awk '{ print; x } # & y' b"),
        ("cd a && find . -exec b {} +", "a", " find . -exec b {} +"),
        ("cd a && b --x=1#2 \\\n c", "a", " b --x=1#2 \\\n c"),
        ("cd a && cd b && c", "a", " cd b && c"),
        ("cd a && env X=1 b", "a", " env X=1 b"),
        ("cd a && export X=1 && b", "a", " export X=1 && b"),
    ],
)
def test_a_leading_cd_is_recognised(text: str, directory: str, rest: str) -> None:
    assert leading_cd(text) == LeadingCd(directory, rest)


@pytest.mark.parametrize(
    "text",
    [
        "b",
        "cd a",
        "cd && b",
        "cd a &&",
        "cd a && ",
        "cd a && && b",
        "cd a && b &&",
        "cd a && b && \n",
        "cd a && | b",
        "cda && b",
        "cd a b && c",
        "cd a | b && c",
        "cd a || b && c",
        "cd a; b && c",
        "cd a & b && c",
        "cd a > b && c",
        "\ncd a && b",
        "x=1 cd a && b",
        "(cd a && b)",
    ],
)
def test_leading_cd_of_another_form_is_not_recognised(text: str) -> None:
    assert leading_cd(text) is None


@pytest.mark.parametrize(
    "directory",
    [
        "$a",
        "'a'$b",
        '"$a"',
        '"a\\$b"',
        "`a`",
        "$(a)",
        "a*",
        "a?",
        "[a]",
        "{a,b}",
        "~",
        "~/a",
        "~user",
        "~+",
        "~'/a'",
        "-",
        "'-'",
        "-P a",
        "-- a",
        "+1",
        "=a",
        "a=b",
        "!a",
        "''",
        "'a\nb'",
        "a#b",
        "a\u00a0b",
    ],
)
def test_a_directory_that_is_not_literal_is_not_recognised(directory: str) -> None:
    assert leading_cd(f"cd {directory} && b") is None


@pytest.mark.parametrize(
    "rest",
    [
        "b; c",
        "b & c",
        "b &",
        "b || c",
        "b\nc",
        "b\n\u00a0",
        "b |& c",
        "b &> c",
        "b # c",
        "#b",
        "cat <<E\nb\nE",
        "cat <<< b",
        "echo $'b;c'",
        'echo $"b"',
        "echo $[1 & 2]",
        "echo ${b:-'}'}",
        "echo `b 'c'`",
        "{ b & c; }",
        "echo { & b",
        "echo { ; b; } & c }",
        "(case b in b) c & esac)",
        "if b; then c; fi",
        "(b",
        "b)",
        "b }",
        "'b",
        '"b',
        "b \\",
        "echo $OLDPWD",
        "cd -",
        "(cd '-')",
        "cd $b",
        "ls ~-",
        "echo $_",
        "echo ${_}",
        "echo ${_##*/}",
        "echo ${#_}",
        "echo ${!_}",
        'echo "$_"',
        "set",
        "declare -p",
        "typeset",
        "f() { local -p; }",
        "echo $PIPESTATUS",
        "echo $pipestatus",
        "echo $BASH_EXECUTION_STRING",
        "echo $ZSH_EXECUTION_STRING",
        "echo $BASH_COMMAND",
        "cat /proc/$$/cmdline",
        "ls /proc/self/cwd",
        "ps -ef",
        "pgrep -f a",
        "pkill -f a",
    ],
)
def test_cd_before_a_compound_command_is_not_recognised(rest: str) -> None:
    assert leading_cd(f"cd a && {rest}") is None


@pytest.mark.parametrize(
    "text",
    [
        "cd " + "a" * 60_000,
        "cd " + "'" * 60_001,
        "cd a && b" + "c" * LONGEST,
        "cd a && " + "(" * 10_000,
        "cd a && " + '"$(' * 10_000,
        "cd a && " + "b && " * 10_000,
        "cd a && b" + "\n" * 10_000 + "c",
        "cd a && " + "`" * 10_001,
        "cd a && " + "${a" * 10_000,
        "cd a && " + "cd " * 10_000,
        "cd a && " + "cd" + " " * 10_000 + ".",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    leading_cd(text)  # the time limit of every test is the assertion
