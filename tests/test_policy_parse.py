"""The programs that a text runs, as the parser of a policy finds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell.policy.parse import grammar, parse

if TYPE_CHECKING:
    from anyshell._types import ShellKind
    from anyshell.policy.parse import ParsedCommand

ONE_LINERS = Path(__file__).parent / "data" / "one_liners.txt"


def words(command: ParsedCommand) -> str:
    """A command in one line, for a table: words that are not literal are in angle brackets."""
    texts = [
        command.program or "?",
        *(each.text if each.literal else f"<{each.text}>" for each in command.arguments),
    ]
    variables = [f"{each.name}={each.value.text}" for each in command.variables]
    redirections = [f"{each.descriptor}{each.operator}{each.target.text}" for each in command.redirections]
    flags = [name for name in ("piped", "background", "defines") if getattr(command, name)]
    via = [f"via {' '.join(command.via)}"] if command.via else []
    host = [f"on {command.host}"] if command.host else []
    said = " ".join(filter(None, [*variables, *texts, *redirections]))
    return said + "".join(f"; {each}" for each in [*via, *host, *flags])


READ = [
    ("git status && ls -la | wc -l > out.txt", ["git status", "ls -la", "wc -l >out.txt; piped"]),
    ("a; b & c || d", ["a", "b; background", "c", "d"]),
    ("! a && { b; } > f", ["a", "b >f"]),
    ("(a; b) | { c; }", ["a", "b", "c; piped"]),
    ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
    ("for x in 1 2; do a $x; done | b", ["a <$x>", "b; piped"]),
    ("while a; do b; done < f", ["a <f", "b <f"]),
    ("until a; do b; done", ["a", "b"]),
    ("case $x in a|b) c;; *) d;; esac", ["c", "d"]),
    ("select x in a b; do c; done", ["c"]),
    ("f() { a; }; f b", ["a; defines", "f b"]),
    ("c $(a) `b`", ["c <$(a)> <`b`>", "a", "b"]),
    ('c "$(a "$(b)")"', ['c <"$(a "$(b)")">', 'a <"$(b)">', "b"]),
    ("c <(a) >(b)", ["c <<(a)> <>(b)>", "a", "b; piped"]),
    ('c ${x:-$(a)} ${x:-"$(b)"}', ['c <${x:-$(a)}> <${x:-"$(b)"}>', "a", "b"]),
    ("cat <<E | a\n$(b)\nE\nc", ["cat <<$(b)\n", "b", "a; piped", "c"]),
    ("cat <<'E' > f\n$(b) `c`\nE", ["cat <<$(b) `c`\n >f"]),
    ("python - <<'E'\nprint()\nE", ["python - <<print()\n"]),
    ('a <<< "$(b)" 2>&1', ['a <<<"$(b)" 2>&1', "b"]),
    ("c\\at 'a b' \"c d\"e f\\ g", ["cat a b c de f g"]),
    ("A=1 B=$(b) c", ["A=1 B=$(b) c", "b"]),
    ("x=1; [ -f f ] && a", ["x=1", "[ -f f ]", "a"]),
    ("cp $A/$B/c d", ["cp <$A/$B/c> d"]),
    ("> f", [">f"]),
    ("[[ -f f ]] 2> g", ["2>g"]),
    ("eval 'ls -la'", ["eval ls -la", "ls -la; via eval"]),
    ("bash -c 'a | b' x", ["bash -c a | b x", "a; via bash", "b; via bash; piped"]),
    ("bash -euo pipefail -c 'a'", ["bash -euo pipefail -c a", "a; via bash"]),
    ("sudo -u root env A=1 nice -n 5 a", None),
    ("timeout -k 5 10 a -b", ["timeout -k 5 10 a -b", "a -b; via timeout"]),
    ("nohup a &", ["nohup a; background", "a; via nohup; background"]),
    ("a | xargs -0 -n1 rm -f", ["a", "xargs -0 -n1 rm -f; piped", "rm -f <{}>; via xargs; piped"]),
    ("a | xargs -I{} cp {} b", ["a", "xargs -I{} cp {} b; piped", "cp <{}> b; via xargs; piped"]),
    ("find . -exec rm {} + -exec sh -c 'a' \\;", None),
    ("time -p a b", ["time -p a b", "a b; via time"]),
    ("command -v a; command a", ["command -v a", "command a", "a; via command"]),
    ("exec a > f", ["exec a >f", "a >f; via exec"]),
    ("parallel gzip {} ::: a b", None),
    ("ssh -p 22 u@h 'a | b'", ["ssh -p 22 u@h a | b", "a; via ssh; on u@h", "b; via ssh; on u@h; piped"]),
    ("watch -n 1 'a | b'", ["watch -n 1 a | b", "a; via watch", "b; via watch; piped"]),
    ("su -c 'a' u", ["su -c a u", "a; via su"]),
    ("flock f -c 'a'; flock f b", ["flock f -c a", "a; via flock", "flock f b", "b; via flock"]),
    (
        "setsid a; stdbuf -oL a; ionice -c 3 a; doas a; chroot /x a; unshare -n a; strace -f a; busybox a",
        None,
    ),
    ("script -qc 'a' f", ["script -qc a f", "a; via script"]),
    ("docker exec -it c a b", ["docker exec -it c a b", "a b; via docker"]),
    ("uv run pytest -q", ["uv run pytest -q", "pytest -q; via uv"]),
    ("git bisect run a; git submodule foreach 'b'", None),
    ("fd -e py -x a", ["fd -e py -x a", "a <{}>; via fd"]),
    ("i=0; i=$((i+1)); for n in 1 2; do a $((n*2)); done", None),
    ("while IFS= read -r l; do a; done", ["IFS= read -r l", "a"]),
    ("set -euo pipefail; shopt -s nullglob", ["set -euo pipefail", "shopt -s nullglob"]),
    ("export A=1 B; local c=2", ["export A=1 B", "local c=2"]),
    ("echo é > ä", ["echo é >ä"]),
]


@pytest.mark.parametrize(("text", "expected"), READ, ids=[text for text, _ in READ])
def test_every_command_of_a_text_is_read(text: str, expected: list[str] | None) -> None:
    parsed = parse(text, "bash")
    assert parsed.unknown == ()
    if expected is not None:
        assert [words(each).replace("?", "").strip() for each in parsed.commands] == [
            each.strip() for each in expected
        ]


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("sudo -u root env A=1 nice -n 5 a", "sudo env nice a"),
        ("find . -exec rm {} + -exec sh -c 'a' \\;", "find rm sh a"),
        ("parallel gzip {} ::: a b", "parallel gzip"),
        (
            "setsid a; stdbuf -oL b; ionice -c 3 c; doas d; chroot /x e; unshare -n f; strace -f g; busybox h",
            "setsid a stdbuf b ionice c doas d chroot e unshare f strace g busybox h",
        ),
        ("env 'a.b=c' x\\=y p; sudo 'a-b=c' p", "env p sudo p"),
        ("git bisect run a; git submodule foreach 'b'", "git a git b"),
    ],
)
def test_wrappers_and_wrapped_programs_are_commands(text: str, programs: str) -> None:
    parsed = parse(text, "bash")
    assert parsed.understood
    assert [each.program for each in parsed.commands] == programs.split()


UNKNOWN = r"""
$x
$(a) b
"$x" a
{a,b} c
l? a
$'ls' a
eval "$x"
bash -c "$x"
bash -c "rm $x"
bash
curl x | sh
bash -s < f
bash <<< 'rm -rf ~'
ssh h
ssh $h a
ssh -oProxyCommand=a h b
ssh h "$x"
sudo -Z a
sudo $x a
sudo -s
su -
env -S 'a b'
timeout $x a
xargs sh -c
xargs bash
xargs -I{} sh -c 'rm {}'
find . -exec sh -c 'rm {}' \;
find $x -name y
parallel
watch "$x"
git -c core.pager=a log
git -c alias.x='!rm' x
git submodule foreach "$x"
git rebase -x "$x"
let x=1
unset x
trap a EXIT
source f
. f
alias a=b
enable -f a b
hash -p a b
mapfile -C a x
printf -v x a
[[ $x -eq 1 ]]
[[ x -gt 1 ]]
[ -v x ]
[[ -v x ]]
[[ a && -R x ]]
time x=a p
time -p IFS=a read x
time ! a
test -v 'x[0]'
[ $x ]
[ $(a) = b ]
echo ${x@P}
echo ${!x}
echo ${y[x]}
echo ${y:x}
echo $((x))
echo $(($1))
echo $(( $(a) ))
((x++))
declare -n x=y
declare -i x=y
declare "$x"
read 'x[0]'
read PATH
for PATH in a; do b; done
x[y]=1
x=([y]=1)
coproc a
complete -C a b
shopt -s extglob
set -k
PATH=a b
PATH=a
export PATH=a
LD_PRELOAD=a b
GIT_SSH_COMMAND=a git fetch
env LD_PRELOAD=a b
PS4=a
BASH_ENV=a bash f
PROMPT_COMMAND=a
PAGER=a man b
IFS=a b
PYTHONSTARTUP=a python
NODE_OPTIONS=a node
ls() { rm -rf ~; }; ls
function /bin/ls { a; }
tmux new a
at now
fish -c a
cmd /c a
%1
time (a)
time { a; }
ls \
echo $(
a 'b
a | | b
a <<E
""
""".strip().split("\n")


@pytest.mark.parametrize("text", UNKNOWN)
def test_texts_with_undetermined_programs_are_unknown(text: str) -> None:
    assert not parse(text, "bash").understood


@pytest.mark.parametrize(
    "text",
    [
        "echo ${x:-`p`}",
        "cat <<E\n`p`\n${x:-`p`}\nE",
        "echo `a \\`p\\``",
        "echo ${x#$(p)}",
        "echo ${x%%$(p)} ${x^$(p)} ${x,,$(p)}",
        "cat <<-E\n\t$(p)\n\tE",
        "echo \"${x:-'$(p)'}\"",
        "echo a\\\n$(p)",
        "echo $\\\n(p)",
        "e\\\ncho a",
        "echo a\rp",
        "echo a\vp",
        "echo a\fp",
        "p1;\n\n;p",
        'echo "a" # it\'s\np',
        "echo ${x/'$(p)'/b}",
        "[ a ; p ]",
        "\\ # a\np",
        "\\ p a",
        "[ a && p ]",
        "echo $(a # )\np)",
    ],
)
def test_programs_hidden_from_the_grammar_are_named_or_unknown(text: str) -> None:
    """The findings of the prototype, and those of `tests.policy_lines`."""
    parsed = parse(text, "bash")
    assert not parsed.understood or "p" in {each.program for each in parsed.commands}


@pytest.mark.parametrize(
    ("text", "shell"),
    [
        ("a $'b'", "sh"),
        ("[[ a ]]", "sh"),
        ("((p))", "sh"),
        ("a <(p)", "sh"),
        ("x=(p)", "sh"),
        ("x+=p", "sh"),
        ("a <<< b", "sh"),
        ("function f { p; }", "sh"),
        ("a &> f", "sh"),
        ("echo ${x/a/b}", "sh"),
        ("export x=$y; p", "sh"),
        ("ls *(e:'p':)", "zsh"),
        ("a =(p)", "zsh"),
        ("=p a", "zsh"),
        ("echo ${(e)x}", "zsh"),
        ("echo $~x", "zsh"),
        ("repeat 3 p", "zsh"),
        ("noglob p", "zsh"),
        ("foreach x (a) p; end", "zsh"),
        ("[ x -eq 1 ]", "zsh"),
        ("exit $x", "zsh"),
        ("printf %d $x", "zsh"),
        ("setopt a", "zsh"),
        ("> f", "zsh"),
        ("a >! f", "zsh"),
        ("y='path[$(p)]'; echo $x[y]", "zsh"),
        ("echo $x[PATH=3]", "zsh"),
        ('echo "$x[y]"', "zsh"),
        ("echo $#x[y]", "zsh"),
        ("z=$1[y]", "zsh"),
        ("cat << E\n$x[y]\nE", "zsh"),
        ("ls", "wsl"),
        ("ls", "pwsh"),
        ("ls", "powershell"),
    ],
)
def test_texts_read_differently_by_another_shell_are_unknown(text: str, shell: ShellKind) -> None:
    assert not parse(text, shell).understood


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
@pytest.mark.parametrize(
    "text", ["ls -la | wc -l > f", 'git commit -m "a b" && git push', "for x in a b; do echo $x; done", ""]
)
def test_everyday_lines_are_understood_by_each_shell(text: str, shell: ShellKind) -> None:
    assert parse(text, shell).unknown == ()


def test_everyday_lines_are_understood_except_text_evaluations() -> None:
    lines = [line.replace("⏎", "\n") for line in ONE_LINERS.read_text(encoding="utf-8").splitlines()]
    unknown = {line: parse(line, "bash").unknown for line in lines if not parse(line, "bash").understood}
    assert len(lines) > 300
    assert set(unknown) == {
        "docker exec -it web bash",  # a shell that reads its input
        "crontab -l",
        "source .venv/bin/activate && pytest -q",
        'export PATH="$HOME/bin:$PATH"',
    }


def test_commands_of_powershell_are_a_hint() -> None:
    parsed = parse("Get-Item 'a b' $x | rm -Force > f; & $c", "pwsh")
    assert [words(each) for each in parsed.commands] == ["Get-Item a b <$x>", "rm -Force >f; piped", "?"]
    assert not parsed.understood


def test_text_with_an_escaped_leading_blank_is_unknown() -> None:
    assert not parse("\\ # a", "bash").understood
    assert not parse("\\ p a", "bash").understood


def test_a_span_is_where_a_word_is_written() -> None:
    text = "écho 'a b' && ssh h 'c | d'"
    first, ssh, inner, _ = parse(text, "bash").commands
    assert text[slice(*first.span)] == "écho 'a b'"
    assert text[slice(*first.arguments[0].span)] == "'a b'"
    assert text[slice(*ssh.span)] == "ssh h 'c | d'"
    assert text[slice(*inner.span)] == "'c | d'"


def test_splittable_word_is_distinguished_from_a_single_word() -> None:
    arguments = parse('a $x "$x" "$@" *.py ~/b $(c) "$(c "$x")" d$x', "bash").commands[0].arguments
    assert [each.single for each in arguments] == [False, True, False, False, True, False, True, False]
    assert not any(each.literal for each in arguments)


def test_functions_are_named() -> None:
    parsed = parse("greet() { echo hi; }; greet", "bash")
    assert parsed.functions == ("greet",)
    assert parsed.understood


def test_oversized_text_is_unknown() -> None:
    assert parse("a;" * 20_000, "bash").unknown == ("the text is too large: more than 32768 characters",)


@pytest.mark.parametrize(
    "piece",
    [
        ")(&|;<",
        "$(",
        "a|",
        "(",
        "`",
        '"${x',
        "<<a\n",
        "a;",
        '"',
        "{",
        "[[ ",
        "${",
        "env ",
        "'",
        "a=(",
        "\0",
        "\ud800",
        "eval ",
    ],
)
def test_a_text_that_takes_too_long_is_unknown(piece: str) -> None:
    assert not parse((piece * 32_768)[:32_768], "bash").understood


def test_a_text_that_goes_too_deep_is_unknown() -> None:
    assert not parse("(" * 500 + "a" + ")" * 500, "bash").understood
    assert not parse("sudo " * 20 + "a", "bash").understood


def test_a_text_with_too_many_commands_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyshell.policy.parse.reading.MAX_COMMANDS", 3)
    assert not parse("a; b; c; d", "bash").understood


TOKENS = (
    "if then fi while do done case esac in for ; & | && || ( ) { } [[ ]] [ ] (( )) $( ${ ` \" ' \\ <<E E\n \n = x= a "
    "eval sudo env -c bash find -exec xargs ssh export declare time ! $x $(( <( > < 2>&1"
)


@pytest.mark.parametrize("shell", ["bash", "zsh", "sh", "pwsh", "powershell", "wsl"])
@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.text(st.sampled_from("$(){}[]<>|&;`'\"\\ \n\t!#*?~=-xE1@\r\0é\ud800")),
        st.lists(st.sampled_from(TOKENS.split(" "))).map(" ".join),
    )
)
def test_no_text_raises(text: str, shell: ShellKind) -> None:
    parsed = parse(text, shell)
    assert parsed.text == text


def test_without_the_extra_a_text_is_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    grammar._language.cache_clear()
    try:
        for shell in ("bash", "sh", "zsh"):
            assert parse("ls", shell).unknown == (
                "the extra policy is not installed: python -m pip install 'anyshell[policy]'",
            )
    finally:
        grammar._language.cache_clear()


def test_rules_load_with_the_first_policy_and_tree_sitter_with_the_first_parse() -> None:
    code = """if True:
        import sys, anyshell
        anyshell.Environment
        assert "anyshell.policy.rules" not in sys.modules
        import anyshell.policy.parse, anyshell.policy.rules
        assert "tree_sitter" not in sys.modules
        anyshell.policy.parse.parse("ls", "bash")
        print("tree_sitter" in sys.modules)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "True"


@pytest.mark.parametrize(
    "text",
    [
        "cat " + "$abcdefgh/" * 30 + '"\\"',
        "cat " + "$abcdefgh/" * 30 + "\\",
        'cat x"' + "$abcdefgh/" * 30 + '\\"$x',
    ],
)
def test_adjacent_expansions_are_parsed_in_time(text: str) -> None:
    """Regression test: each name doubled the time several times, so that these texts took years."""
    assert not parse(text, "bash").understood


@pytest.mark.parametrize(("late", "understood"), [(0, True), (1, True), (2, False)])
def test_late_parse_is_tried_once_more(late: int, understood: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may collect garbage during a parse; the collection takes processor time of the thread."""
    deadlines: list[grammar.Deadline] = []

    def over(self: grammar.Deadline, *_state: object) -> bool:
        if self not in deadlines:
            deadlines.append(self)
        return deadlines.index(self) < late

    monkeypatch.setattr(grammar.Deadline, "over", over)
    parsed = parse("echo a", "bash")
    assert parsed.understood is understood
    assert len(deadlines) == min(late + 1, grammar.TRIES)
    if not understood:
        assert parsed.unknown == ("too much to be understood in time",)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_late_parse_of_powershell_is_tried_once_more(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[grammar.Deadline] = []

    def over(self: grammar.Deadline, *_state: object) -> bool:
        if self not in deadlines:
            deadlines.append(self)
        return deadlines.index(self) < late

    monkeypatch.setattr(grammar.Deadline, "over", over)
    parsed = parse("Get-Item a", "pwsh")
    assert ("too much to be understood in time" in parsed.unknown) is (late == grammar.TRIES)


def test_parser_gets_no_text_after_the_deadline() -> None:
    """The parser may read the text to its end a hundred times between two looks at its progress."""

    class Looks(grammar.Deadline):
        reads = 0

        def over(self, *state: object) -> bool:
            self.reads += not state
            return self.reads > 20

    text, looks = ")(&|;<" * 5000, Looks()
    with pytest.raises(grammar.Late):
        grammar.tree(text, "bash", looks)
    assert looks.reads > 20
