"""The corpus of logs, `tests/data/logs/`, and the measurements on the corpus."""

from __future__ import annotations

import hashlib
import re
import tomllib

from bench.logs import BUDGETS, CORPUS, shown, signals, table
from bench.logs import load as logs

# fmt: off
HOSTS = frozenset((
    "127.0.0.1", "localhost", "example.com", "example.org", "git.example.com", "url", "user",
    "example.com-None-http", "f", "localhost-localhost", "xn--f-rgao.com", "xn--n3h.example.com",  # of Werkzeug's tests
    "bugs.debian.org", "cwiki.apache.org", "deb.debian.org", "docs.docker.com", "docs.pytest.org", "en.wikipedia.org", "files.pythonhosted.org", "fourthought.com",
    "github.com", "help.gradle.org", "jestjs.io", "packaging.python.org", "pip.pypa.io", "pypi.org", "registry.npmjs.org",
    "repo.maven.apache.org", "www.debian.org", "www.netlib.org", "www.shellcheck.net",
))
# fmt: on
"""The hosts that addresses in a log may name: public hosts, and names without an owner."""

PRIVATE = re.compile(
    rb"/home/(?!dev\b)\w+|/Users/\w+"
    rb"|\b(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2,3}:\d"
    rb"|(?:AKIA|ghp_|gho_|glpat-|xox[bp]-|npm_)[A-Za-z0-9]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Paths of a person, addresses of a private net, and shapes of tokens."""

URL = re.compile(rb"\b(?:https?|ssh|git|ftp)://(?:[\w.-]+@)?([a-z\d-]+(?:\.[a-z\d-]+)*)", re.IGNORECASE)


def test_signals_and_facts_stand_in_one_line_of_their_log() -> None:
    wrong: list[tuple[str, str]] = []
    for log in logs():
        text = log.data.decode("utf-8", "replace")
        wrong += [
            (log.name, each)
            for each in (*log.cause, *log.facts)
            if each not in text or "\n" in each or len(each.strip()) <= 3
        ]
    assert wrong == []


def test_log_within_the_limit_shows_all_causes_and_facts() -> None:
    """A text that cleaning removes from the log would measure the cleaning, not the bounding."""
    wrong: list[tuple[str, str]] = []
    for log in logs():
        text = shown(log.data, 10 * len(log.data) + 1_000)
        wrong += [(log.name, each) for each in (*log.cause, *log.facts) if each not in text]
    assert wrong == []


def test_failures_have_one_to_six_signals_and_successes_facts() -> None:
    right = [(1 <= len(log.cause) <= 6) if log.failure else (log.facts and not log.cause) for log in logs()]
    assert [log.name for log, holds in zip(logs(), right, strict=True) if not holds] == []


def test_log_names_no_private_place() -> None:
    private = {log.name: found[0] for log in logs() if (found := PRIVATE.search(log.data))}
    unknown = {
        (log.name, host) for log in logs() for host in URL.findall(log.data) if host.decode() not in HOSTS
    }
    assert (private, unknown) == ({}, set())


def test_logs_with_an_odd_hash_of_their_name_are_held_out() -> None:
    odd = {log.name for log in logs() if hashlib.sha256(log.name.encode()).digest()[0] % 2}
    assert {log.name for log in logs() if log.held_out} == odd


def test_corpus_has_many_logs_of_many_sizes_and_is_small() -> None:
    assert len(logs()) >= 100
    assert 0.6 <= sum(bool(log.failure) for log in logs()) / len(logs()) <= 0.85
    sizes = sorted(len(log.data) for log in logs())
    assert sum(10_000 <= size <= 500_000 for size in sizes) >= 100
    assert sum(size >= 1_000_000 for size in sizes) >= 4
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) <= 2_500_000


def test_every_file_has_its_entry() -> None:
    entries = tomllib.loads((CORPUS / "facts.toml").read_text(encoding="utf-8"))
    assert {path.name.removesuffix(".log.xz") for path in CORPUS.glob("*.xz")} == set(entries)
    for entry in entries.values():
        assert entry["kind"] == ("failure" if entry["exit_code"] else "success")
        assert entry["command"]
        assert entry["tool"]


def test_table_has_a_row_for_each_budget_half_and_way() -> None:
    rows = table(logs()[:20]).splitlines()
    assert len(rows) == 2 + len(BUDGETS) * 2 * 3


def test_page_has_the_measured_shares_of_failures() -> None:
    page = (CORPUS.parents[2] / "docs/explanation/decisions.md").read_text(encoding="utf-8")
    assert signals(logs()) in page
