"""Verdicts of a policy: profiles, paths, directories, layers and files of rules.

No test runs a command. The host is a value, except in the tests of `LocalFacts`.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshell import Limits, Policy, Reach
from anyshell.errors import PolicyError
from anyshell.policy.presets import PRESETS, read
from anyshell.policy.rules import ROUNDS, Answers, LocalFacts
from anyshell.policy.rules.git import keys_that_run
from anyshell.policy.rules.patterns import ANYTHING, MOST_FOUND, MOST_LISTED
from anyshell.policy.rules.profiles import MOST_WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyshell.types import Verdict

HOME = "/home/me"
CWD = "/home/me/work"


class Host:
    """A host as a value.

    Args:
        links: The target of each linked path, also for all paths below.
        found: The path of a program by its name; any other program is in /usr/bin.
        git: The configuration keys by which git runs programs.
        names: The names in each directory.
    """

    home = HOME

    def __init__(
        self,
        links: Mapping[str, str] | None = None,
        found: Mapping[str, str | None] | None = None,
        git: tuple[str, ...] | None = (),
        names: Mapping[str, tuple[str, ...] | None] | None = None,
    ) -> None:
        self._links = links or {}
        self._found = found or {}
        self._git = git
        self._names = names or {}

    def find(self, program: str) -> str | None:
        return self._found.get(program, f"/usr/bin/{program}")

    def resolve(self, path: str) -> str | None:
        done = "/"
        for name in path.split("/"):
            done = posixpath.normpath(f"{done}/{name}")
            done = self._links.get(done, done)
        return done

    def names(self, directory: str) -> tuple[str, ...] | None:
        return self._names.get(directory, () if self._names else ANYTHING)

    def git_runs(self, directory: str) -> tuple[str, ...] | None:
        return self._git


RULES = """
[[allow]]
name = "work"
reads = ["anywhere"]
writes = ["workspace", "tmp"]
deletes = ["workspace/*", "tmp/*"]

[programs.show]
harmless = true
flags.text = "-n"
flags.reads = "-f"
positionals = "text reads*"
when = [{ flags = "-f", positionals = "reads*" }]

[programs.order]
flags.none = "-# -a -b --all"
flags.text = "-k --key"
flags.optional = "--color -i"
flags.writes = "-o --output"
positionals = "reads*"

[programs.move]
flags.none = "-f"
flags.writes = "-t"
positionals = "reads+deletes* writes"
when = [{ flags = "-t", positionals = "reads+deletes*" }]

[programs.edit]
flags.none = "-n"
flags.script = "-e"
flags.optional = "-i"
kinds.script = 's/[^/]*/[^/]*/g?|[0-9]+p'
positionals = "script reads*"
when = [{ flags = "-e", positionals = "reads*" }, { flags = "-i", reads = "writes" }]

[programs.pack]
style = "tar"
flags.none = "-t -z"
flags.reads = "-f"
flags.directory = "-C"
positionals = "text*"

[programs.blocks]
flags.reads = "if="
flags.writes = "of="

[programs.search]
style = "single"
flags.none = "-print"
flags.text = "-name"
flags.command = "-exec"
positionals = "reads*"
default = "reads"

[programs.wrap]
style = "posix"
flags.text = "-k"
positionals = "text runs"

[programs.vcs]
flags.info = "--version"
flags.none = "--quiet"
flags.directory = "-C"
inherit = true
[programs.vcs.commands.log]
positionals = "text*"
[programs.vcs.commands.status]
git = "core.fsmonitor filter.*"
positionals = ""
[programs.vcs.commands.remote.commands.""]
[programs.vcs.commands.remote.commands.show]
positionals = "text"
network = true

[programs.fetch]
flags.writes = "-o"
positionals = "host*"

[programs.first]
flags.none = "-#"
positionals = "reads*"
output = "lines"

[programs.plain]
positionals = ""
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy.preset("ask-everything").extended(RULES, "rules.toml")


def decide(policy: Policy, text: str, **host: object) -> Verdict:
    return policy.decide(text, cwd=CWD, facts=Host(**host))  # type: ignore[arg-type]  # the keyword arguments have mixed types


def touched(policy: Policy, text: str, **host: object) -> dict[str, tuple[str, ...]]:
    """The paths and hosts that the last command of a text touches; paths below the workspace are relative to the workspace."""
    access = decide(policy, text, **host).commands[-1].access
    paths = {kind: getattr(access, kind) for kind in ("reads", "writes", "deletes", "network")}
    return {
        kind: tuple(path.removeprefix(f"{CWD}/") for path in values)
        for kind, values in paths.items()
        if values
    }


# --- words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show -n 5 pattern a b", {"reads": ("a", "b")}),
        ("show -f patterns a", {"reads": ("patterns", "a")}),
        ("show -fpatterns a", {"reads": ("patterns", "a")}),
        ("show -- -f a", {"reads": ("a",)}),
        ("order -ab a", {"reads": ("a",)}),
        ("order -5 a", {"reads": ("a",)}),
        ("order -abo out a", {"reads": ("a",), "writes": ("out",)}),
        ("order -aoout a", {"reads": ("a",), "writes": ("out",)}),
        ("order --output=out a", {"reads": ("a",), "writes": ("out",)}),
        ("order --output out a", {"reads": ("a",), "writes": ("out",)}),
        ("order -io a", {"reads": ("a",)}),  # the rest of the word is the optional value of the flag
        ("order --color=x a", {"reads": ("a",)}),
        ("order -- -o", {"reads": ("-o",)}),
        ("move a b c", {"reads": ("a", "b"), "deletes": ("a", "b"), "writes": ("c",)}),
        ("move -t c a b", {"reads": ("a", "b"), "deletes": ("a", "b"), "writes": ("c",)}),
        ("edit s/a/b/ f", {"reads": ("f",)}),
        ("edit -i s/a/b/ f", {"writes": ("f",)}),
        ("edit -i.old -e s/a/b/ f", {"writes": ("f",)}),
        ("pack tzf a", {"reads": ("a",)}),
        ("pack -t -f a", {"reads": ("a",)}),
        ("blocks if=a of=b", {"reads": ("a",), "writes": ("b",)}),
        ("search -name x", {"reads": (CWD,)}),
        ("search a -name x", {"reads": ("a",)}),
        ("fetch -o out https://x.example/y", {"network": ("https://x.example/y",), "writes": ("out",)}),
    ],
)
def test_words_are_classified_by_the_profile(policy: Policy, text: str, expected: object) -> None:
    assert touched(policy, text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "order --outp=/etc/x a",  # an abbreviation
        "order -q a",
        "order --all=x a",
        "edit s/a/b/w f",
        "edit -e '1e id' f",
        "edit -n '1w /etc/x' f",
        "pack xzf a",
        "plain a",
        "vcs",
        "vcs push",
        "vcs --unheard log",
        "vcs status --unheard",
        "unheard-of",
        "wrap 5 ls",  # a wrapper unknown to the parser
        "order *",
        "order $x",
        'order "$x"',
        "order -o$x a",
        "move $x b",
        "edit -i $x f",
        'edit "$x" f',
        "$x a",
        "./order a",
        "bin/order a",
        "order -k $x a",
    ],
)
def test_unknown_commands_and_arguments_ask(policy: Policy, text: str) -> None:
    verdict = decide(policy, text)
    assert verdict.action == "ask"
    assert verdict.reasons


@pytest.mark.parametrize(
    "text",
    [
        "show pattern *.py",
        "show pattern *",
        "show -unheard pattern a",
        "show x src/*.py",
        "order ./*",
        "order src/*.py",
        "order -- *.py",
        "order src/{a,b}.py",
        "order -k 2 a",
        "order a -k 2",
        "echo $x",
        "echo *",
        "vcs --version",
        "vcs log --quiet a b",
        "vcs remote",
        "",
        "# nothing",
        "x=1",
        "order a > out 2>&1",
        "order a > /dev/null",
        "order < a",
        "order a << end\nx\nend",
        "cd src && order ../a",
    ],
)
def test_known_commands_within_the_workspace_are_allowed(policy: Policy, text: str) -> None:
    verdict = decide(policy, text)
    assert (verdict.action, verdict.understood) == ("allow", True), verdict.reasons


def test_value_of_flag_behind_positional_counts_as_path_too(policy: Policy) -> None:
    """The programs of BSD take ``-d`` as a file: there, ``touch a -d /etc/x`` makes /etc/x."""
    assert touched(policy, "order a -k /etc/x") == {"reads": ("a", "/etc/x")}


def test_splittable_word_shifts_later_words(policy: Policy) -> None:
    """The expansion of ``$x`` may be ``pattern /etc/shadow``."""
    assert touched(policy, "show $x a")["reads"] == ("*", "a")
    assert touched(policy, 'show "$x" a')["reads"] == ("a",)
    assert touched(policy, 'show "$@" a')["reads"] == ("*", "a")
    hidden = decide(policy, """show "$(echo '"')"$x"$(echo '"')" a""")
    assert "*" in hidden.commands[0].access.reads


# --- programs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "found",
    [f"{CWD}/bin/order", "/tmp/order", "/home/me/bin/order", "", None],
)
def test_program_outside_of_the_systems_directories_asks(policy: Policy, found: str | None) -> None:
    assert decide(policy, "order a", found={"order": found}).action == "ask"


def test_link_in_a_directory_of_the_system_may_not_lead_into_the_workspace(policy: Policy) -> None:
    links = {"/usr/local/bin/order": f"{CWD}/order.js"}
    assert decide(policy, "order a", found={"order": "/usr/local/bin/order"}, links=links).action == "ask"


def test_absolute_path_of_a_program_is_its_name(policy: Policy) -> None:
    assert decide(policy, "/usr/bin/order a").action == "allow"
    assert decide(policy, "/usr/bin/../../tmp/order a").action == "ask"
    assert decide(policy, "/usr/bin/order a", links={"/usr/bin": "/home/me/bin"}).action == "ask"


def test_directories_of_the_user_can_be_named(policy: Policy) -> None:
    more = policy.extended('directories = ["~/bin"]', "more.toml")
    assert decide(more, "order a", found={"order": "/home/me/bin/order"}).action == "allow"


def test_function_is_judged_by_its_commands(policy: Policy) -> None:
    found: dict[str, str | None] = {"f": ""}
    assert decide(policy, "f() { order a; }; f x", found=found).action == "allow"
    assert decide(policy, "f() { rm ~/x; }; f x", found=found).action == "ask"
    assert decide(policy, "f() { order a; }; f x", found={"f": "/usr/bin/f"}).action == "ask"


def test_git_is_asked_about_its_configuration(policy: Policy) -> None:
    assert decide(policy, "vcs status").action == "allow"
    assert decide(policy, "vcs status", git=("diff.x.textconv",)).action == "allow"
    for keys in (("core.fsmonitor",), ("filter.x.clean",), ("GIT_EXTERNAL_DIFF",), None):
        assert decide(policy, "vcs status", git=keys).action == "ask", keys
    assert decide(policy, "vcs log", git=("core.fsmonitor",)).action == "allow"


# --- paths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "rm ../x",
        "rm -r .",  # the workspace itself
        "rm -r src/../../x",
        "rm .*",
        "rm src/*/../../../x",
        "rm {a,/etc/x}",
        "rm {a,../x}",
        "rm x{,/../../../y}",
        "rm ~/x",
        "rm ~root/x",
        "rm $HOME/x",
        "rm $x",
        "rm link/x",
        "order a > ../out",
        "order a > $x",
        "order a > link",
        "order a >& ../out",
        "order a &> /etc/x",
        "touch /etc/x",
        "ln -s ../x y",
        "ln -s /etc/passwd y; echo x > y",
        "HOME=.; touch ~/x",
    ],
)
def test_writes_outside_of_the_workspace_ask(policy: Policy, text: str) -> None:
    assert decide(policy, text, links={f"{CWD}/link": "/home/me/other"}).action != "allow"


NAMES = {
    CWD: ("src/", "link@", "a.py "),
    f"{CWD}/src": ("deep/", "b.py "),
    f"{CWD}/src/deep": ("in@", "c.py "),
}
LINKS = {f"{CWD}/link": "/var/data", f"{CWD}/src/deep/in": "/etc"}


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("order *.py", ("*.py",)),
        ("order l*", ("/var/data", "l*")),
        ("order L*", ("/var/data", "L*")),
        ("order l?nk/o.txt", ("/var/data/o.txt", "l?nk/o.txt")),
        ("order */x*", ("*/x*", "/var/data/x*")),
        ("order ./{link,src}/o", ("*",)),
        ("order src/*/[ij]n", ("/etc", "src/*/[ij]n")),
        ("order src/*/*/o", ("/etc/o", "src/*/*/o")),
        ("order **/c.py", ("**/c.py", "/etc/c.py", "/var/data/c.py")),
        ("order sr*/deep/in/o", ("/etc/o", "sr*/deep/in/o")),
        ("order ~/w*/link", ("/home/me/w*/link",)),
    ],
)
def test_pattern_follows_links_among_its_matches(policy: Policy, text: str, reads: tuple[str, ...]) -> None:
    assert {*touched(policy, text, links=LINKS, names=NAMES)["reads"]} == {*reads}


@pytest.mark.parametrize(
    "text",
    [
        "order > l*",
        "order > l?nk/o.txt",
        "rm l*/o.txt",
        "rm src/*/in/x",
        "touch ./{link,src}",
        "cp -r link copy",
        "cp -a link copy; order > copy/x",
        "cp -P l* src",
        "cp -d ./link/ copy",
        "cp -dt src link",
    ],
)
def test_write_through_a_matched_or_copied_link_asks(policy: Policy, text: str) -> None:
    assert decide(policy, text, links=LINKS, names=NAMES).action == "ask"
    assert decide(policy, text, names={CWD: ("src/", "link/")}).action == "allow"


@pytest.mark.parametrize("names", [None, tuple(f"{at}/" for at in range(MOST_LISTED + 1))])
def test_pattern_in_an_unknown_or_oversized_directory_asks(
    policy: Policy, names: tuple[str, ...] | None
) -> None:
    assert touched(policy, "order *.py", names={CWD: names}) == {"reads": ("*",)}


def test_text_over_the_word_limit_asks(policy: Policy) -> None:
    def asked(*orders: int) -> str:
        text = "; ".join(f"order {' '.join(f'a{at}' for at in range(words))}" for words in orders)
        return " ".join(reason.text for reason in decide(policy, text).reasons)

    more = f"more than {MOST_WORDS}|more than .* or {MOST_WORDS} words"
    assert not re.search(more, asked(MOST_WORDS))
    assert re.search(more, asked(MOST_WORDS + 1))
    assert not re.search(more, asked(*[MOST_WORDS // 2 - 1] * 2))
    assert re.search(more, asked(*[MOST_WORDS // 2] * 2))
    assert decide(policy, f"rm -rf /; order {'a ' * MOST_WORDS}").action == "deny"


def test_pattern_with_too_many_intermediate_matches_asks(policy: Policy) -> None:
    found = {CWD: tuple(f"{at}/" for at in range(MOST_FOUND + 2))}
    assert touched(policy, "order */*", names=found) == {"reads": ("*",)}


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("cp a.py src", "deny"),
        ("cp b/a.py/ src/", "deny"),
        ("cp -t src x a.py", "deny"),
        ("cp -tsrc x a.py", "deny"),
        ("cp ./*.py src", "deny"),
        ("cp ./*/*/c* src", "allow"),
        ("cp ./*/*/c* ./*.py src", "deny"),
        ("mv x a.py src", "deny"),
        ("ln x a.py src", "deny"),
        ("cp x.py src", "allow"),
        ("cp x a.py", "allow"),  # in src alone it is refused
        ("cp x.py y.py", "allow"),
    ],
)
def test_copy_into_a_directory_keeps_the_source_name(text: str, action: str) -> None:
    policy = with_rules('[[deny]]\nname = "kept"\nchanges = ["workspace/src/a.py"]\n')
    assert decide(policy, text, names=NAMES).action == action


def test_rule_by_words_asks_for_matches_of_a_pattern() -> None:
    policy = with_rules('[[deny]]\nname = "kept"\ncommand = ["* .env", "* */.env"]\n')
    names = {CWD: (".env ", "src/"), f"{CWD}/src": (".env ",)}
    for text, action in (
        ("cat .e*", "deny"),
        ("cat s*/.en?", "deny"),
        ("cat *", "allow"),
        ("cat .f*", "allow"),
    ):
        assert decide(policy, text, names=names).action == action, text


def test_copy_follows_a_link_at_its_target(policy: Policy) -> None:
    assert decide(policy, "cp ../y/x src", links={f"{CWD}/src/x": "/etc/x"}).action == "ask"
    assert decide(policy, "cp ../y/x src").action == "allow"


def test_links_are_resolved_before_dots(policy: Policy) -> None:
    links = {f"{CWD}/link": "/var/data/deep"}
    assert touched(policy, "rm link/../x", links=links) == {"deletes": ("/var/data/x",)}


def test_very_deep_path_asks(policy: Policy) -> None:
    assert decide(policy, f"rm {'a/' * 5000}b").action == "ask"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd src && rm x", {f"{CWD}/src/x"}),
        ("cd src; rm x", {f"{CWD}/src/x", f"{CWD}/x"}),
        ("cd src || rm x", {f"{CWD}/src/x", f"{CWD}/x"}),
        ("(cd / && ls); rm x", {f"{CWD}/x", "/x"}),
        ("(cd src && ls) && rm x", {f"{CWD}/src/x", f"{CWD}/x"}),
        ("cd a && cd b && rm x", {f"{CWD}/a/b/x"}),
        ("cd / && cd - && rm x", {"*"}),
        ("cd && rm x", {f"{HOME}/x"}),
        ("cd ~/x && rm x", {f"{HOME}/x/x"}),
        ('cd "$y" && rm x', {"*"}),
        ("pushd src && rm x", {"*"}),
        ("cd src && rm /x", {"/x"}),
        ("cd $y; rm /x", {"/x"}),
        ("for i in 1 2; do rm x; cd ..; done", {"*"}),
        ("CDPATH=/; cd src && rm x", {"*"}),
        ("cd src && rm $PWD/x", {"*"}),
        ("rm $PWD/x", {f"{CWD}/x"}),
        ("command cd src && rm x", {f"{CWD}/src/x", f"{CWD}/x"}),
    ],
)
def test_relative_paths_follow_cd(policy: Policy, text: str, expected: set[str]) -> None:
    found = {path for each in decide(policy, text).commands for path in each.access.deletes}
    assert found == expected


def test_function_runs_in_the_directory_of_its_call(policy: Policy) -> None:
    found = decide(policy, "f() { rm x; }; cd /; f", found={"f": ""})
    assert {path for each in found.commands for path in each.access.deletes} == {"/x", f"{CWD}/x"}


def test_too_many_directories_are_not_known(policy: Policy) -> None:
    text = "; ".join(f"cd d{number}" for number in range(12)) + "; rm x"
    assert touched(policy, text) == {"deletes": ("*",)}


# # --- results of find and xargs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("find src -name x -exec rm {} +", {f"{CWD}/src/**"}),
        ("find src -execdir rm {} +", {"*"}),
        ("find src -name x -print0 | xargs -0 rm", {f"{CWD}/src/**"}),
        ("find src -name x | xargs rm", {"*"}),  # a name with a blank in it
        ("find src -name x | xargs -I% rm %", {"*"}),
        ("find src -name x | cat | xargs -0 rm", {"*"}),
        ("cat list | xargs -0 rm", {"*"}),
        ("xargs -0 rm", {"*"}),
        ("find src -name x; xargs -0 rm", {"*"}),
    ],
)
def test_names_from_find_lie_below_the_searched_directory(
    policy: Policy, text: str, expected: set[str]
) -> None:
    found = {path for each in decide(policy, text).commands for path in each.access.deletes}
    assert found == expected


def test_names_pass_through_filters_to_a_program_that_reads(policy: Policy) -> None:
    assert decide(policy, "find src -name x | grep -v y | first -3 | xargs grep z").action == "allow"
    assert decide(policy, "find src -name x | grep -v y list | xargs grep z").action == "ask"


# --- rules ----------------------------------------------------------------------------------------------------


def with_rules(rules: str, preset: str = "ask-everything") -> Policy:
    return Policy.preset(preset).extended(RULES + rules, "rules.toml")


def test_deny_beats_ask_beats_allow() -> None:
    both = '[[deny]]\nname = "d"\ncommand = "order -a"\n[[ask]]\nname = "a"\nprogram = "order"\n'
    policy = with_rules(both)
    assert decide(policy, "order -a x").action == "deny"
    assert decide(policy, "order x").action == "ask"
    assert decide(policy, "show x").action == "allow"
    assert decide(policy, "show x; order -a x; order x").action == "deny"


@pytest.mark.parametrize(
    "text",
    [
        "order --output=x a",
        "order a --outp x",
        "order -ao x",
        "/tmp/order -o x",
        "./order -o x",
        "ORDER -o x",
        "wrap 5 order -o x; order -o y",
        "order $y -o x",
        "(true && order -o x) | cat",
        "bash -c 'order -o x'",
        "echo $(order -o x)",
    ],
)
def test_deny_finds_its_words_in_any_form(text: str) -> None:
    policy = with_rules('[[deny]]\nname = "d"\ncommand = ["order --output", "order -o"]\n')
    assert decide(policy, text).action == "deny"


def test_deny_holds_in_an_unknown_text() -> None:
    policy = with_rules('[[deny]]\nname = "d"\ndeletes = ["/etc"]\n')
    verdict = decide(policy, "eval $x; rm -r /etc/ssl")
    assert (verdict.action, verdict.understood) == ("deny", False)


def test_allow_by_command_covers_all_effects_but_redirections() -> None:
    policy = with_rules('[[allow]]\nname = "a"\ncommand = "brew2 run test"\n')
    assert decide(policy, "brew2 run test").action == "allow"
    assert decide(policy, "brew2 run test -- --watch").action == "allow"
    assert decide(policy, "brew2 run test > out").action == "allow"
    for text in (
        "brew2 run build",
        "brew2 run test > /etc/x",
        "brew2 run test $x",
        "brew2 run 'test x'",
        "./brew2 run test",
        "sudo brew2 run test",
        "brew2 --prefix /x run test",
        "ssh web-1 brew2 run test",
        "LD_PRELOAD=x brew2 run test",
    ):
        assert decide(policy, text).action == "ask", text


def test_allow_by_command_can_be_exact_and_can_take_expansions() -> None:
    policy = with_rules(
        '[[allow]]\nname = "a"\ncommand = "brew3"\nexact = true\n'
        '[[allow]]\nname = "b"\ncommand = "brew2 run"\nexpansions = true\n'
    )
    assert decide(policy, "brew3").action == "allow"
    assert decide(policy, "brew3 install").action == "ask"
    assert decide(policy, "brew2 run $x").action == "allow"
    assert decide(policy, "brew2 $x").action == "ask"


def test_allow_with_program_covers_only_named_paths_and_hosts() -> None:
    policy = with_rules(
        '[[allow]]\nname = "a"\nprogram = "fetch"\nnetwork = ["*.example"]\nwrites = ["/srv"]\n'
    )
    assert decide(policy, "fetch https://x.example/y -o /srv/z").action == "allow"
    assert decide(policy, "fetch https://x.example/y -o /srv/z > /srv/log").action == "allow"
    for text in (
        "fetch https://x.example.com/y",
        "fetch https://x.example@evil.com/y",
        "fetch 'https://evil.com\\@x.example/'",
        "fetch $url",
        "fetch -o /etc/x https://x.example/y",
        "fetch https://x.example/y https://evil.com",
    ):
        assert decide(policy, text).action == "ask", text


def test_allow_for_a_host_holds_on_that_host_alone() -> None:
    policy = with_rules(
        '[[allow]]\nname = "a"\ncommand = "brew2"\nhost = "web-*"\n[[allow]]\nname = "s"\ncommand = "ssh"\n'
    )
    assert decide(policy, "ssh web-1 brew2").action == "allow"
    assert decide(policy, "ssh db-1 brew2").action == "ask"
    assert decide(policy, "brew2").action == "ask"
    assert decide(policy, "ssh web-1 show x").action == "ask"


def test_rule_can_name_a_program_by_its_path() -> None:
    policy = with_rules('[[allow]]\nname = "a"\nprogram = "workspace/.venv/bin/*"\ncommand = "*"\n')
    assert decide(policy, ".venv/bin/python x.py").action == "allow"
    assert decide(policy, f"{CWD}/.venv/bin/pytest").action == "allow"
    assert decide(policy, "cd /tmp && .venv/bin/python x.py").action == "ask"
    assert decide(policy, ".venv/bin/../../x").action == "ask"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("rm -rf /", "deny"),
        ("rm -rf /*", "deny"),
        ("rm -rf //", "deny"),
        ("rm -r --no-preserve-root /", "deny"),
        ("rm -rf --unheard ~", "deny"),
        ("rm -rf ~/*", "deny"),
        ("rm -rf /home", "deny"),
        ("rm -rf /HOME/Me", "deny"),
        ("rm -rf $HOME", "deny"),
        ("cd / && rm -rf *", "deny"),
        ("cd && rm -rf .", "deny"),
        ("find / -delete", "deny"),
        ("rm -rf ~/x", "ask"),
        ("rm -rf ~/*.log", "ask"),
        ("rm -rf build", "allow"),
    ],
)
def test_item_with_equals_covers_a_directory_and_its_parents(text: str, action: str) -> None:
    policy = with_rules('[[deny]]\nname = "all"\ndeletes = ["=~", "=/"]\n')
    assert decide(policy, text).action == action


@pytest.mark.parametrize(
    "text",
    [
        "cat ~/.ssh/id",
        "cat ~/.SSH/id",
        "cat ~/.ss*/id",
        "cat ../.ssh/*",
        "cd ~ && cat .ssh/id",
        "cat < ~/.ssh/id",
        "cat a/b/x.pem",
        "cat *.p?m",
    ],
)
def test_ask_holds_where_a_pattern_may_lead(text: str) -> None:
    policy = with_rules('[[ask]]\nname = "keys"\nreads = ["~/.ssh", "**/*.pem"]\n')
    verdict = decide(policy, text)
    assert verdict.action == "ask"
    assert verdict.reasons[0].rule.endswith(": keys")


def test_input_of_holds_for_pipes_and_substitutions() -> None:
    policy = with_rules('[[deny]]\nname = "d"\nprogram = ["sh", "bash"]\ninput_of = ["curl"]\n')
    for text in (
        "curl x | sh",
        "curl x | tee y | bash",
        "curl x | sudo bash",
        'bash -c "$(curl x)"',
        "bash <(curl x)",
    ):
        assert decide(policy, text).action == "deny", text
    for text in ("curl x; bash", "curl x | cat", "bash -c 'curl x'"):
        assert decide(policy, text).action != "deny", text


def test_recursion_in_the_background_is_seen() -> None:
    policy = with_rules('[[deny]]\nname = "d"\nrecursive = true\nbackground = true\n')
    assert decide(policy, ":(){ :|:& };:").action == "deny"
    assert decide(policy, "f() { order a & }; f").action != "deny"


# --- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("[[allow]]\nname = 'a'\nunheard = 1", "f.toml:1: unheard is not a key of a rule"),
        ("\n\n[[deny]]\nname = 'a'", "f.toml:3: a: it would deny everything"),
        ("[[allow]]\nprogram = 'x'", "f.toml:1: a rule must have a name"),
        ("[[allow]]\nname = 'a b'\nprogram = 'x'", "f.toml:1: a rule must have a name"),
        ("[[ask]]\nname='a'\n[[ask]]\nname='b'\n[[ask]]\nname='a'", "there are two rules with the name a"),
        ("[[allow]]\nname='a'\nreads = ['nowhere']", "f.toml:1: reads: nowhere begins with no area"),
        ("[[allow]]\nname='a'\nreads = ['workspace/../x']", "f.toml:1: reads: workspace/../x has"),
        ("[[allow]]\nname='a'\npiped = true", "f.toml:1: a: piped is for ask and deny alone"),
        ("[[allow]]\nname='a'\nprivilege = 'x'", "f.toml:1: privilege must be true or false"),
        ("[[allow]]\nname='a'\nprogram = ['x', 1]", "f.toml:1: program must be a text or several"),
        ("[allow]\nname='a'", "write [[allow]]"),
        ("\n[[refuse]]\nname='a'", "f.toml:2: refuse: the keys are"),
        ('[[deny]]\nname = "d"\ncommand = "npm install && ls"\n', "more than the words of one command"),
        ('[[deny]]\nname = "d"\ncommand = "a;"\n', "more than the words of one command"),
        ('[[deny]]\nname = "d"\nprogram = "sudo npm"\n', "has a blank"),
        ('[[deny]]\nname = "d"\nprogam = "npm"\n', "did you mean program?"),
        ("x = ", "f.toml: not TOML: "),
        ("\xff", "f.toml: not text in UTF-8: "),
        ("override = ['unheard']", "override: no refused rule has the name unheard"),
        ("preset = 'unheard'", "there is no preset 'unheard'"),
        ("\nreach = 'all'", "f.toml:2: reach: the name of a preset must be 'workspace'"),
        ("reach = 5", "f.toml:1: reach must be the name of a preset or a table, not int"),
        ("\n[reach]\nwrites = ['.']", "f.toml:2: reach: 'writes' is not a key; the keys are read, write"),
        ("[reach]\nwrite = '.'", "f.toml:1: reach: write must be a list of texts"),
        ("[reach]\nread = ['~root/x']", "f.toml:1: reach: read: '~root/x' is below another user's home"),
        ("[reach]\nnetwork = 'x'", "f.toml:1: reach: network must be true, false or a list of texts"),
        ("[reach]\nlimits = {mem = 1}", "f.toml:1: reach: limits: 'mem' is not a key; the keys are memory"),
        ("[reach]\nlimits = {memory = -1}", "f.toml:1: reach: limits: memory must be a whole number above 0"),
        ("\n[programs.x]\nflag = 'x'", "f.toml:2: programs.x: flag is not a key of a profile"),
        ("[programs.x]\nflags.eats = '-a'", "programs.x: eats is not a role"),
        ("[programs.x]\nflags.none = '-a'\nflags.text = '-a'", "programs.x: -a is listed twice"),
        ("[programs.x]\npositionals = 'reads* writes*'", "only one of the positionals may end in *"),
        ("[programs.x]\nkinds.k = '('", "kinds.k is not a regular expression"),
        ("[programs.x]\nstyle = 'dos'", "style must be one of"),
        ("[programs.x.commands.y]\nflags = 1", "programs.x.commands.y: flags must be"),
        (
            "[[allow]]\nname='a'\ncommand='order'\nmatch=['order x', 'other']",
            "f.toml:1: a does not hold for its example 'other'",
        ),
        (
            "[[allow]]\nname='a'\ncommand='order'\nnot_match=['order x']",
            "f.toml:1: a holds for its example 'order x'",
        ),
    ],
)
def test_bad_file_names_line_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.toml").write_bytes(rules.encode("latin-1"))
    with pytest.raises(PolicyError) as failure:
        Policy.load("f.toml")
    assert said in str(failure.value)


def test_administrator_reach_precedes_the_users_reach(tmp_path: Path) -> None:
    (tmp_path / "user.toml").write_text(
        '[reach]\nread = ["/"]\nwrite = ["."]\nnetwork = true\nlimits = { memory = 5 }\n'
    )
    (tmp_path / "admin.toml").write_text('reach = "read-only"\n')
    own = Policy.load(tmp_path / "user.toml").reach
    assert own == Reach(read=("/",), write=(".",), network=True, limits=Limits(memory=5))
    both = Policy.load(tmp_path / "user.toml", administrator=tmp_path / "admin.toml")
    assert both.reach == Reach.preset("read-only")
    assert Policy.preset("workspace").reach is None


def test_missing_or_oversized_policy_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load(tmp_path / "none.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * 2_000_000)
    with pytest.raises(PolicyError, match="too many for a file of rules"):
        Policy.load(tmp_path / "large.toml")


def test_changes_to_policy_files_are_denied_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(tmp_path / "settings"))
    work = tmp_path / "work"
    work.mkdir()
    files = [work / "rules [mine].toml", work / "project.toml"]
    for file in files:
        file.write_text("")
    (work / "link.toml").symlink_to(files[0])
    policy = Policy.load(
        work / "link.toml", preset="workspace", project=files[1], trust=lambda path, data: True
    )
    for text in (
        "echo x > 'rules [mine].toml'",
        "rm link.toml",
        "sed -i s/a/b/ project.toml",
        "mv project.toml x",
        "rm ../settings/policy.toml",
        "echo x > ../settings/trusted-projects",
        "rm -rf ../settings",
    ):
        verdict = policy.decide(text, cwd=str(work))
        assert verdict.action == "deny", text
        assert "it changes the policy itself" in verdict.reasons[0].text
    assert policy.decide("cat project.toml; echo x > 'rules m.toml'", cwd=str(work)).action == "allow"
    files[0].write_text("override = ['policy-files']")
    assert Policy.load(files[0], preset="workspace").decide("rm link.toml", cwd=str(work)).action == "allow"


def test_administrator_wins_and_refused_rules_are_overridden_by_name(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text(
        'override = ["shutdown"]\n[[allow]]\nname = "a"\ncommand = "reboot"\n[[deny]]\nname = "d"\ncommand = "order"\n'
    )
    administrator = tmp_path / "administrator.toml"
    administrator.write_text(
        RULES + '[[allow]]\nname = "o"\ncommand = "order"\n[[deny]]\nname = "r"\ncommand = "show"\n'
    )
    alone = Policy.load(user)
    assert decide(alone, "reboot").action == "allow"
    assert decide(Policy.preset("trusted"), "reboot").action == "deny"
    both = Policy.load(user, administrator=administrator)
    assert decide(both, "order a").action == "allow"
    assert decide(both, "show x a").action == "deny"


def test_own_allow_goes_before_the_presets_ask(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text('preset = "read-only"\n[[allow]]\nname = "a"\ncommand = "cat"\n')
    assert decide(Policy.preset("read-only"), "cat ~/.ssh/id").action == "ask"
    assert decide(Policy.load(user), "cat ~/.ssh/id").action == "allow"
    assert Policy.load(user).name == "read-only"
    assert Policy.load(user, preset="trusted").name == "trusted"


def test_project_may_only_tighten_and_is_confirmed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(tmp_path / "config"))
    project = tmp_path / "project.toml"
    project.write_text('[[deny]]\nname = "d"\ncommand = "ls"\n')
    asked: list[tuple[str, bytes]] = []

    def trust(path: str, data: bytes) -> bool:
        asked.append((path, data))
        return True

    for refusing in (None, lambda _path, _data: False):
        with pytest.raises(PolicyError, match="not trusted"):
            Policy.load(project=project, trust=refusing)
    for _ in range(2):
        policy = Policy.load(project=project, preset="read-only", trust=trust)
        assert decide(policy, "ls").action == "deny"
    assert asked == [(str(project), project.read_bytes())]
    assert decide(Policy.load(project=project), "ls").action == "deny"
    project.write_text('[[ask]]\nname = "d"\ncommand = "ls"\n')
    with pytest.raises(PolicyError, match="not trusted"):
        Policy.load(project=project)
    for more in (
        '[[allow]]\nname = "a"\ncommand = "x"',
        'override = ["shutdown"]',
        "[programs.x]",
        'directories = ["/x"]',
    ):
        project.write_text(more)
        with pytest.raises(PolicyError, match="a project may only ask and deny"):
            Policy.load(project=project, trust=trust)


@pytest.mark.skipif(sys.platform == "win32", reason="permission bits are of POSIX")
def test_list_of_believed_projects_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("ANYSHELL_CONFIG_DIR", str(config))
    project = tmp_path / "project.toml"
    project.write_text('[[deny]]\nname = "d"\ncommand = "ls"\n')
    Policy.load(project=project, trust=lambda _path, _data: True)
    (file,) = config.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    config.chmod(0o777)
    with pytest.raises(PolicyError, match="not trusted"):
        Policy.load(project=project)


@pytest.mark.parametrize("name", ["read-only", "workspace", "ask-everything", "trusted"])
def test_every_example_of_a_preset_holds(name: str) -> None:
    assert Policy.preset(name).mistakes() == []


# --- the host -------------------------------------------------------------------------------------------------


def test_questions_are_collected_and_answered_in_rounds(policy: Policy) -> None:
    """Answers for a host that is asked over a connection."""
    host = Host(links={f"{CWD}/link": "/var/data"})
    known: dict[object, object] = {}
    for _ in range(ROUNDS):
        answers = Answers(known)  # type: ignore[arg-type]  # the dict of the test has no types
        verdict = policy.decide("cd link && order a && vcs status", cwd=CWD, facts=answers)
        if not answers.questions:
            break
        assert verdict.action == "ask"
        for name, argument in answers.questions:
            known[name, argument] = host.home if name == "home" else getattr(host, name)(argument)
    assert not answers.questions
    assert verdict.action == "allow"
    assert verdict.commands[1].access.reads == ("/var/data/a",)


@pytest.mark.skipif(sys.platform == "win32", reason="links and PATH as of POSIX")
def test_local_facts_describe_this_machine(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "order").write_text("#!/bin/sh\n")
    (tools / "order").chmod(0o755)
    (tmp_path / "bin").symlink_to(tools)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    facts = LocalFacts({"PATH": f"{tmp_path}/bin:.", "HOME": str(tmp_path)})
    assert facts.home == str(tmp_path)
    assert facts.find("order") == str(tools.resolve() / "order")
    assert facts.find("unheard-of") == ""
    assert facts.resolve(f"{tmp_path}/bin/none/x") == str(tools.resolve() / "none/x")
    assert facts.resolve(f"{tmp_path}/loop") is None
    assert facts.resolve("/a\0b") is None


@pytest.mark.skipif(sys.platform == "win32", reason="PATH as of POSIX")
def test_name_on_a_relative_path_entry_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order").write_text("#!/bin/sh\n")
    (tmp_path / "order").chmod(0o755)
    assert LocalFacts({"PATH": ".:/usr/bin"}).find("order") is None


# --- git ------------------------------------------------------------------------------------------------------


def keys(directory: Path, home: Path | None = None, /, **environ: str) -> tuple[str, ...] | None:
    return keys_that_run(
        str(directory), str(home or directory / "home"), environ, system=str(directory / "none")
    )


def repository(directory: Path, config: str = "") -> Path:
    for name in ("objects", "refs"):
        (directory / ".git" / name).mkdir(parents=True)
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (directory / ".git" / "config").write_text(config)
    return directory / ".git"


CONFIGURATIONS: list[tuple[str, tuple[str, ...] | None]] = [
    ("", ()),
    ("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n", ()),
    ('[user]\n\tname = "A # B"\n', ()),
    ("[core]\nfsmonitor = evil", ("core.fsmonitor",)),
    ("[core] fsmonitor = evil", ("core.fsmonitor",)),
    ("[CORE]\nFsMonitor=evil", ("core.fsmonitor",)),
    ("[core]\nfsmonitor", ("core.fsmonitor",)),
    ("[core]\nfsmonitor = false", ()),
    ("[a] x = 1\n[core] fsmonitor = evil", ("core.fsmonitor",)),
    ("[a][core]fsmonitor = evil", ("core.fsmonitor",)),
    ('[filter "X"]\nclean = evil', ("filter.X.clean",)),
    ("[filter.X]\nclean = evil", ("filter.x.clean",)),
    ('[filter "lfs"]\nclean = git-lfs clean -- %f', ()),
    ('[filter "lfs"]\nclean = evil', ("filter.lfs.clean",)),
    ('[filter "a\\"]b"]\nprocess = evil', ('filter.a"]b.process',)),
    ('[diff "a"]\ntextconv = x\ncommand = y', ("diff.a.command", "diff.a.textconv")),
    ("[alias]\nst = !evil", ("alias.st",)),
    ("[core]\nx = a \\\n[foo]\nfsmonitor = evil", ("core.fsmonitor",)),
    ("[core]\n# a \\\nfsmonitor = evil", None),
    ("[core]\nx = a\\\\\nfsmonitor = evil", None),
    ("[core]\nx = a # \\\nfsmonitor = evil", None),
    ("[core]\nx\r = 1", None),
    ("[core]\nx\x0b = 1", None),
    ("[core\n]fsmonitor = evil", None),
    ("fsmonitor = evil", None),
    ("[core]\n= 1", None),
    ("[core]\r\nfsmonitor = evil\r\n", ("core.fsmonitor",)),
    ("\ufeff[core]\nfsmonitor = evil", ("core.fsmonitor",)),
    ("[x]\ny = 1\0", None),
    ("[include]\npath = more", ("core.pager",)),
    ('[includeIf "gitdir:/nowhere"]\npath = more', ("core.pager",)),
    ("[include]\npath = ~other/x", None),
    ('[include]\npath = "mo"re', None),
    ('[include]\npath = mo";"re', None),
    ("[include]\npath = mo\\tre", None),
    ("[include]\npath = :(optional)more", None),
    ("[diff]\nsubmodule = diff", ("diff.submodule",)),
    ("[include]\npath = config", ()),  # the file itself
]


@pytest.mark.parametrize(("config", "expected"), CONFIGURATIONS)
def test_keys_of_gits_configuration_are_found(
    tmp_path: Path, config: str, expected: tuple[str, ...] | None
) -> None:
    git = repository(tmp_path, config)
    (git / "config").write_bytes(config.encode())
    (git / "more").write_text("[core]\npager = evil\n")
    assert keys(tmp_path) == expected


def test_configurations_of_the_user_and_above_count(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text("[core]\neditor = vi\n")
    (home / ".gitconfig").write_text("[core]\npager = less\n")
    repository(tmp_path, "[core]\nfsmonitor = x")
    (tmp_path / "sub/.git").mkdir(parents=True)  # git takes no such directory
    assert keys(tmp_path / "sub", home) == ("core.editor", "core.fsmonitor", "core.pager")
    assert keys(tmp_path / "sub", home, XDG_CONFIG_HOME=str(tmp_path)) == ("core.fsmonitor", "core.pager")
    assert keys_that_run(str(tmp_path), None, {}) is None


def test_directory_with_repository_content_is_a_repository(tmp_path: Path) -> None:
    bare = tmp_path / "docs"
    repository(tmp_path / "x", "[core]\nfsmonitor = evil").rename(bare)
    assert keys(bare) == ("core.fsmonitor",)


def test_worktrees_hooks_and_submodules_count(tmp_path: Path) -> None:
    git = repository(tmp_path / "main", "[core]\nfsmonitor = x")
    (git / "hooks").mkdir()
    (git / "hooks/pre-commit").write_text("")
    (git / "hooks/update.sample").write_text("")
    tree = git / "worktrees/tree"
    tree.mkdir(parents=True)
    (tree / "config.worktree").write_text("[core]\npager = x\n")
    (tree / "index").write_bytes(b"DIRC" + bytes(20) + b"\0\0\xe0\0" + bytes(20))
    work = tmp_path / "tree"
    work.mkdir()
    for end in ("\n", "\r\n"):
        (tree / "commondir").write_text(f"../..{end}", newline="")
        (work / ".git").write_text(f"gitdir: {tree}{end}", newline="")
        assert keys(work) == ("core.fsmonitor", "core.pager", "hooks.pre-commit", "submodule")


def test_git_variables_that_run_programs_are_found(tmp_path: Path) -> None:
    quiet = {
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_AUTHOR_NAME": "A",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    assert keys(tmp_path, **quiet) == ()
    given = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.autoRefreshIndex",
        "GIT_CONFIG_VALUE_0": "false",
    }
    assert keys(tmp_path, **given) == ()
    given |= {"GIT_EXTERNAL_DIFF": "evil", "GIT_CONFIG_KEY_0": "Core.fsMonitor"}
    assert keys(tmp_path, **given) == ("GIT_EXTERNAL_DIFF", "core.fsmonitor")
    assert keys(tmp_path, GIT_CONFIG_PARAMETERS="'core.fsmonitor=x'") == ("GIT_CONFIG_PARAMETERS",)


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe with a name is of POSIX")
def test_configuration_pipe_is_not_waited_for(tmp_path: Path) -> None:
    git = repository(tmp_path)
    (git / "config").unlink()
    os.mkfifo(git / "config")  # type: ignore[attr-defined,unused-ignore]  # not on Windows
    assert keys(tmp_path) is None


@pytest.mark.parametrize("config", ["#" * 250_000, "[a]\nx = 1 #" + "# " * 120_000, ";\\" * 120_000 + "x"])
def test_hostile_configuration_is_read_in_time(tmp_path: Path, config: str) -> None:
    """Regression test: the time grew with the square of the size of a comment, to minutes."""
    repository(tmp_path, config)
    assert keys(tmp_path) == ()


def test_oversized_configuration_is_unknown(tmp_path: Path) -> None:
    repository(tmp_path, "#" * 300_000)
    assert keys(tmp_path) is None


# # --- any text --------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *"abo-/=.,*?[]{}~$'\"`|&;<>()!#\\ \n\0",
                "cd ",
                "rm ",
                "order ",
                "find ",
                "xargs ",
                "-exec ",
                "..",
                "--",
                "\udcff",
                "é",
            ]
        ),
        max_size=40,
    ).map("".join)
)
def test_no_text_raises(text: str) -> None:
    policy = Policy.preset("workspace").extended(RULES, "rules.toml")
    verdict = policy.decide(text, cwd=CWD, facts=Host())
    assert verdict.action != "allow" or verdict.understood
    assert policy.explain(text, cwd=CWD, facts=Host())


def test_explanation_names_rules_and_is_safe_to_print(policy: Policy) -> None:
    said = policy.explain("order a > ../x\x1b; rm \u202ex", cwd=CWD, facts=Host())
    assert said.isprintable() or said.replace("\n", "").isprintable()
    assert "outside of the workspace" in said
    assert "rules.toml:2: work" in policy.explain("order a", cwd=CWD, facts=Host())


# --- Windows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "action", "path"),
    [
        ("order a/b", "allow", r"C:\Users\me\work\a\b"),
        ("show x *.py", "allow", r"C:\Users\me\work/*.py"),
        ("rm ~/x", "ask", r"C:\Users\me\x"),
        (r"rm 'c:\users\me'", "deny", r"c:\users\me"),
        ("rm /c/x", "ask", "*"),  # Git for Windows turns this into a drive
        ("rm C:x", "ask", "*"),  # relative to the current directory of the drive
        (r"touch ..\\x", "ask", r"C:\Users\me\x"),
    ],
)
def test_paths_of_windows(text: str, action: str, path: str) -> None:
    class Windows(Host):
        home = r"C:\Users\me"

        def find(self, program: str) -> str | None:
            return rf"C:\Windows\System32\{program}.exe"

        def resolve(self, path: str) -> str | None:
            return ntpath.normpath(path)

    policy = with_rules('[[deny]]\nname = "all"\ndeletes = ["=~", "=/"]\n')
    verdict = policy.decide(text, cwd=r"C:\Users\me\work", facts=Windows())
    access = verdict.commands[0].access
    assert (verdict.action, (*access.reads, *access.writes, *access.deletes)) == (action, (path,))


@pytest.mark.parametrize(
    ("found", "action"),
    [
        (r"C:\WINDOWS\system32\order.exe", "allow"),  # as left by an older Windows
        (r"D:\windows\order.exe", "allow"),
        (r"C:\Windowsx\order.exe", "ask"),
        (r"C:\users\me\work\order.exe", "ask"),
    ],
)
def test_windows_directories_ignore_case(found: str, action: str) -> None:
    class Windows(Host):
        home = r"C:\Users\me"

        def find(self, program: str) -> str | None:
            return found

        def resolve(self, path: str) -> str | None:
            return ntpath.normpath(path)

    policy = with_rules("")
    assert policy.decide("order a", cwd=r"C:\Users\me\work", facts=Windows()).action == action


# # --- attempts to evade a policy -------------------------------------------------------------------------------


def test_find_execdir_command_has_unknown_paths(policy: Policy) -> None:
    verdict = decide(policy, r"find / -execdir rm x \;")
    assert verdict.commands[-1].access.deletes == ("*",)


def test_allow_heeds_the_case_of_a_program(policy: Policy) -> None:
    assert decide(policy, "ORDER a").action == "ask"
    assert decide(policy, "Order a").reasons[0].text == "Order is written in another case"


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.com#.x.example",
        "https://evil.com?.x.example",
        "https://evil.com/.x.example",
        "https://evil.com\\.x.example",
        "https://{evil.com,y.x.example}/",
        "https://x.example:80@evil.com",
        "https://evil.com%2f.x.example",
        "//evil.com/.x.example",
        "-x.example",
        "",
    ],
)
def test_url_host_is_parsed_as_programs_do(url: str) -> None:
    policy = with_rules('[[allow]]\nname = "a"\nprogram = "fetch"\nnetwork = ["*.example"]\n')
    assert decide(policy, f"fetch '{url}'").action == "ask"
    for good in (
        "https://x.example",
        "http://me:pw@x.example:80/y#z",
        "x.example/y?z",
        "git@x.example:y/z.git",
    ):
        assert decide(policy, f"fetch '{good}'").action == "allow", good


def test_process_substitution_is_no_path(policy: Policy) -> None:
    assert decide(policy, "show x <(order a) <(order b)").action == "allow"
    assert decide(policy, "show x <(rm /etc/x)").action != "allow"
    assert decide(policy, "show x <(order a)/../../../etc/x").action == "ask"
    assert decide(policy, "edit <(order a) b").action == "ask"


def test_text_over_the_analysis_bounds_asks(policy: Policy) -> None:
    assert decide(policy, "x=1\n" * 60).action == "allow"
    many = decide(policy, "x=1\n" * 70)
    assert many.action == "ask"
    assert decide(policy, f"show x {'a ' * 2000}").action == "ask"
    assert decide(policy, f"edit {'a' * 5000} x").action == "ask"


@pytest.mark.parametrize("name", [*PRESETS, "refused"])
def test_reference_has_every_rule_of_a_preset(name: str) -> None:
    page = Path(__file__).parent.parent.joinpath("docs", "reference", "policy.md").read_text("utf-8")
    _, _, presets = page.partition("\n## Presets\n")
    listed, _, refused = presets.partition("\n## Profiles\n")[0].partition("Under every preset")
    rules = tomllib.loads(read(name).decode())
    for action in ("allow", "ask", "deny"):
        for rule in rules.get(action, ()):
            row = (
                f"| `{rule['name']}` |"
                if name == "refused"
                else f"| `{name}` | {action} | `{rule['name']}` |"
            )
            assert row in (refused if name == "refused" else listed), (name, rule["name"])
