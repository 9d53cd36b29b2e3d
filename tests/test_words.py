"""Commands as words: argument lists, templates, and the quoting of an environment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anyshell
from anyshell import Environment, Fleet, InvalidCommand, sh
from anyshell.detached import DetachedJobs
from anyshell.shells import SHELLS, text_of

from .conftest import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyshell._types import ShellKind

pytestmark = pytest.mark.anyio

HOSTILE = "a'b\"c $(touch pwned) `touch pwned` \\ ; touch pwned\n# * ~ {x,y} !! %PATH% \u2019 \u2018 é"
"""A text that a shell would interpret in every way without quotes."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["bash", "zsh", "sh"])
async def env(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    if shutil.which(request.param) is None:
        missing(request.param, f"apt-get install {request.param}")
    async with Environment.detect(shell=request.param, cwd=tmp_path) as env:
        yield env
    assert not (tmp_path / "pwned").exists()


PRINTS = "import sys; sys.stdout.buffer.write(b'\\0'.join(map(__import__('os').fsencode, sys.argv[1:])))"


def printed(output: bytes) -> list[str]:
    return [word.decode(errors="surrogateescape") for word in output.split(b"\0")]


async def test_list_reaches_the_program_word_by_word(env: Environment) -> None:
    words = [HOSTILE, "", "-n", "A=b", "if", "~", "=ls", "\\", "\t", "$'x'", "a\udcffb"]
    outcome = await env.run([sys.executable, "-c", PRINTS, *words])
    assert printed(outcome.check().output.data) == words


async def test_list_takes_paths_numbers_and_bytes(env: Environment) -> None:
    outcome = await env.run((sys.executable, "-c", PRINTS, PurePosixPath("/a b"), 3, 0.5, b"\xff"))
    assert printed(outcome.output.data) == ["/a b", "3", "0.5", "\udcff"]


async def test_list_is_run_as_by_a_shell(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("text")
    assert (await env.run(["no-such-program", "x"])).exit_code == 127
    assert (await env.run([tmp_path / "plain"])).exit_code == 126
    assert (await env.run(["exit", "7"])).exit_code == 7
    assert (await env.run(["echo", "$HOME", "*"])).output.text == "$HOME *\n"
    (tmp_path / "if").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "if").chmod(0o755)
    assert (await env.run(["if"], env={"PATH": str(tmp_path)})).output.text == "mine\n"


async def test_every_door_takes_a_list(env: Environment, tmp_path: Path) -> None:
    words = ["printf", "%s", HOSTILE]
    assert (await env.run(words)).output.data == HOSTILE.encode()
    async with env.stream(words, by="chunks") as events:
        assert b"".join([event.data async for event in events]) == HOSTILE.encode()
    job = await env.start(words)
    assert (outcome := await job.wait()) is not None
    assert outcome.output.data == HOSTILE.encode()
    assert job.command == env.quote(*words)
    async with env.session() as session:
        assert (await session.run(words)).output.data == HOSTILE.encode()
    async with env.terminal(["echo", "it is $HOME"]) as terminal:
        await terminal.expect(r"it is \$HOME")
        assert terminal.command == "echo 'it is $HOME'"
    detached = await env.start(words, detach=True)
    await detached.wait()
    assert HOSTILE.encode() in (await detached.output()).data
    await DetachedJobs(env).prune()


def test_blocking_run_takes_a_list_and_a_template() -> None:
    assert anyshell.run(["printf", "%s", HOSTILE], shell="sh").output.data == HOSTILE.encode()
    assert anyshell.run(sh("printf %s {}", HOSTILE), shell="sh").output.data == HOSTILE.encode()


async def test_fleet_quotes_for_each_host(tmp_path: Path) -> None:
    async with Fleet(["local"], cwd=tmp_path) as fleet:
        for command in (
            ["printf", "%s", HOSTILE],
            sh("printf %s {}", HOSTILE),
            lambda _: ["printf", "%s", HOSTILE],
        ):
            async for result in fleet.run(command):
                assert result.check().output.data == HOSTILE.encode()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "a list without a program"),
        ([""], "a list without a program"),
        (["ls", None], "argument 1 of the command must be text, a path or a number, not NoneType"),
        (["ls", True], "argument 1 of the command must be .* not bool"),
        (["ls", float("nan")], "argument 1 of the command must be .* not float"),
        (["ls", ["-l"]], "argument 1 of the command must be .* not list"),
        (["ls", "a\0b"], "argument 1 of the command holds a NUL byte at character 1"),
        ([None], "the program must be text"),
        (b"ls", r"must be a string, a list of a program and its arguments, or anyshell\.sh\(…\), not bytes"),
        ({"ls"}, "must be a string, a list .* not set"),
        (None, "must be a string, a list .* not NoneType"),
    ],
)
async def test_malformed_command_is_refused_with_the_fault(command: object, message: str) -> None:
    async with Environment.detect(shell="sh") as env:
        with pytest.raises(InvalidCommand, match=message):
            await env.run(command)  # type: ignore[arg-type]  # that is the point


async def test_quote_makes_words(env: Environment) -> None:
    assert env.quote("a", Path("b c"), 3, "") == "a 'b c' 3 ''"
    outcome = await env.run(f"printf '<%s>' {env.quote(HOSTILE, 'b')}")
    assert outcome.output.data == f"<{HOSTILE}><b>".encode()
    with pytest.raises(InvalidCommand, match="argument 2 must be text"):
        env.quote("a", None)  # type: ignore[arg-type]  # that is the point


TAKEN = [
    ("{}", ["{}"]),
    ("--file={}", ["--file={}"]),
    ("{}.txt", ["{}.txt"]),
    ("a{}{}b", ["a{}{}b"]),
    ('"a b"{}', ["a b{}"]),
    ("'a'{}'b'", ["a{}b"]),
    ('"it\'s" {}', ["it's", "{}"]),
    ('"$A ${{A}} \\" {{" {}', ['1 1 " {', "{}"]),
    ("$A{} ${{A}}{}", ["1{}", "1{}"]),
    (r"\\{} \'{}", [r"\{}", "'{}"]),
    ("x#'y'{}", ["x#y{}"]),
    ("a # it's\n", ["a"]),
    ("a # it's\n{print} b {}", None),
    ("$(echo x) {}", ["x", "{}"]),
    ("a; {print} {}", None),
]
"""Templates, and the words that a program receives; ``None`` if an earlier line prints."""


@pytest.mark.parametrize(("template", "words"), [each for each in TAKEN if each[1] is not None])
@pytest.mark.parametrize("value", [HOSTILE, "plain", "", "1", "#", "A=b", "$(", "\\", "'"])
async def test_value_of_a_template_is_one_word(
    env: Environment, template: str, words: list[str], value: str
) -> None:
    values = [value] * template.replace("{{", "").count("{}")
    program = env.quote(sys.executable, "-c", PRINTS).replace("{", "{{").replace("}", "}}")
    outcome = await env.run(sh(f"{program} {template}", *values), env={"A": "1"})
    assert printed(outcome.check().output.data) == [word.replace("{}", value) for word in words]


async def test_value_is_no_expression(env: Environment) -> None:
    """After ``=~`` a bare word is a pattern to bash, and so ``a.c`` is quoted there though it has no special character."""
    if env.shell.kind != "bash":
        pytest.skip("zsh takes quotes for nothing there, and sh has no [[")
    assert (await env.run(sh("[[ axc =~ {} ]]; echo $?", "a.c"))).output.text == "1\n"
    assert text_of(sh("echo {}", "a.c"), SHELLS["bash"]) == "echo a.c"


@pytest.mark.parametrize(
    "template",
    [
        "echo '{}'",
        'echo "{}"',
        "echo '' '{}",
        'echo "$(cat {})"',
        'echo "$(cat "{}")"',
        "echo `cat {}`",
        "echo ${{A:-{}}}",
        "echo $(( {} ))",
        "(( {} ))",
        "echo $[ {} ]",
        "echo ${}",
        "echo \\{}",
        "echo $'\\' {}",
        "# {}",
        "true # it's {}",
        "true;#{}",
        "echo \\\n# {}",
        "cat <<EOF\n{}\nEOF\n",
        "cat <<'EOF'\nx\nEOF\necho {}",
        "a[{}]=1",
        "echo \"`echo '\"'` {}",
        'echo "${{A#\\"}}" {}',
    ],
)
@pytest.mark.parametrize("kind", ["bash", "zsh", "sh", "wsl"])
def test_field_within_quotes_is_refused(template: str, kind: ShellKind) -> None:
    with pytest.raises(InvalidCommand, match=r"field 1 of the template stands within quotes"):
        text_of(sh(template, "x"), SHELLS[kind])


@pytest.mark.parametrize(
    "template",
    [
        "echo '{}'",
        'echo "{}"',
        "echo \u2018{}\u2019",
        "echo \u201c{}\u201d",
        'echo "$( {} )"',
        "echo `{}",
        "echo x # {}",
        "<# #> echo {}",
        "@'\n{}\n'@",
        "echo ${{a}} {}",
        "echo --% {}",
        "echo a{}",
        "echo {}b",
        "echo ${}",
    ],
)
@pytest.mark.parametrize("kind", ["pwsh", "powershell"])
def test_field_within_quotes_is_refused_in_powershell(template: str, kind: ShellKind) -> None:
    with pytest.raises(InvalidCommand, match=r"field 1 of the template"):
        text_of(sh(template, "x"), SHELLS[kind])


def test_powershell_quotes_its_own_way() -> None:
    assert (
        text_of(
            sh("Remove-Item -Path:{} {} $(Get-Item '{{') {n}", "a'b", [1, "c d"], n="\u2019"), SHELLS["pwsh"]
        )
        == "Remove-Item -Path:'a''b' '1' 'c d' $(Get-Item '{') '\u2019\u2019'"
    )
    assert text_of(sh("echo 'it\u2019 {} b", "x"), SHELLS["pwsh"]) == "echo 'it\u2019 'x' b"
    assert "& 'git' 'a''b'" in text_of(["git", "a'b"], SHELLS["pwsh"])


def test_template_takes_names_numbers_and_lists() -> None:
    made = sh("cp -- {1} {0} {files} {to}", "b", Path("a b"), files=["x", 3], to="d")
    assert text_of(made, SHELLS["bash"]) == "cp -- 'a b' b x 3 d"
    assert text_of(sh("ls {}", []), SHELLS["bash"]) == "ls "
    assert text_of(sh("awk '{{print $1}}' {}", "f"), SHELLS["bash"]) == "awk '{print $1}' f"
    assert "secret" not in repr(sh("login {}", "secret"))


@pytest.mark.parametrize(
    ("template", "values", "message"),
    [
        ("rm {}", (), r"no value for \{0\}"),
        ("rm {a}", (), r"no value for \{a\}"),
        ("awk '{print $1}'", (), r"no value for \{print \$1\}: give one, or write a brace \{\{ or \}\}"),
        ("rm {0.name}", ("x",), r"no value for \{0\.name\}"),
        ("rm {:>5}", ("x",), r"the field \{0\} of the template says how to format"),
        ("rm {!r}", ("x",), r"the field \{0\} of the template says how to format"),
        ("rm }", (), r"a brace is written \{\{ or \}\}"),
        ("rm", ("x",), "no field for value 0"),
        ("rm {}", (None,), r"the value of \{0\} must be text"),
        ("rm {}", (["a", "b\0"],), r"item 1 of the value of \{0\} holds a NUL"),
        ("rm {}", (sh("x"),), r"the value of \{0\} must be text, a path or a number, not ShellTemplate"),
        ("rm \0", (), "the template holds a NUL"),
    ],
)
def test_malformed_template_names_the_fault(template: str, values: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidCommand, match=message):
        sh(template, *values)


def test_list_in_the_middle_of_a_word_is_refused() -> None:
    with pytest.raises(InvalidCommand, match="field 1 of the template is a list"):
        text_of(sh("a{}", ["b"]), SHELLS["sh"])


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "'",
                '"',
                "\\",
                "$",
                "(",
                ")",
                "{{",
                "}}",
                "`",
                "#",
                "\n",
                " ",
                "a",
                "<",
                ";",
                "[",
                "!",
                "=",
                "~",
            ]
        ),
        max_size=8,
    )
)
def test_accepted_value_runs_nothing(pieces: list[str]) -> None:
    """In any context of a field, a value that would make a file makes none."""
    before = "".join(pieces)
    try:
        text = text_of(
            sh(f": {before}{{}}", "';>pwned;'\";>pwned;\"\n>pwned\n#$(>pwned)`>pwned`"), SHELLS["bash"]
        )
    except InvalidCommand:
        return
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["bash", "-c", text], cwd=directory, capture_output=True, check=False, timeout=20)
        assert not Path(directory, "pwned").exists(), text


@pytest.mark.skipif(sys.version_info < (3, 14), reason="t-strings begin with Python 3.14")
def test_t_string_is_a_template() -> None:
    value, words = "a b", ["c", "d e"]
    made = eval("t'rm {value} {words} {value!r:>8} {{'", {"value": value, "words": words})
    assert text_of(made, SHELLS["bash"]) == "rm 'a b' c 'd e' '   '\\''a b'\\''' {"


T_STRINGS = r"""
import asyncio, anyshell

def blocking(path):
    yield anyshell.run(t"printf '%s' {path}", shell="sh")
    yield anyshell.run(anyshell.sh(t"printf '%s' {path}"), shell="sh")
    with anyshell.connect(shell="sh") as env:
        yield env.run(t"printf '%s' {path}")

async def awaited(path):
    async with anyshell.Environment.detect(shell="sh") as env, env.session() as session:
        yield await session.run(t"printf '%s' {path}")
        yield await (await env.start(t"printf '%s' {path}")).wait()
        async with env.stream(t"printf '%s' {path}") as events:
            async for _ in events: pass
            yield events.outcome
        async with env.terminal(t"printf '%s' {path}") as terminal:
            yield await terminal.wait()
    async with anyshell.Fleet(["local"], shell="sh") as fleet:
        async for result in fleet.run(t"printf '%s' {path}"):
            yield result.outcome

async def listed(path):
    return [each async for each in awaited(path)]

def everywhere(path):
    return [*blocking(path), *asyncio.run(listed(path))]

def mistakes(path):
    return [lambda: anyshell.sh(t"rm {path}", 1), lambda: anyshell.sh(t"rm {None}")]
"""
"""A module for the compilers of Python 3.14 and later alone."""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="t-strings begin with Python 3.14")
def test_every_door_takes_a_t_string() -> None:
    module: dict[str, Any] = {}
    exec(T_STRINGS, module)
    path = "a b'$HOME;*"
    assert [outcome.output.text for outcome in module["everywhere"](path)] == [path] * 8
    messages = ["a t-string has its values", "value 1 of the template must be text, a path or a number"]
    for mistake, message in zip(module["mistakes"](path), messages, strict=True):
        with pytest.raises(InvalidCommand, match=message):
            mistake()
