"""Some hundred and thirty mistakes in the use of the library, and the message for each: ``python -m tests.mistakes`` prints them.

A mistake is the text that a person writes. ``env`` is an entered environment, ``loose`` an awaited environment, and
``blocked`` a blocking environment. `tests/test_mistakes.py` limits the messages to two lines, each with the fault and the remedy.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import re
import tempfile
from typing import Any

import anyshell

MISTAKES = """
anyshell.run(3)
anyshell.run(None)
anyshell.run(b"ls")
anyshell.run("echo \\0")
anyshell.run("true", cwd=3)
anyshell.run("true", cwd="/no/such/directory")
anyshell.run("true", cwd="")
anyshell.run("true", env={"A": 1})
anyshell.run("true", env={"A B": "x"})
anyshell.run("true", env={1: "x"})
anyshell.run("true", env="A=1")
anyshell.run("true", env=["A=1"])
anyshell.run("true", stdin=3)
anyshell.run("true", timeout="5")
anyshell.run("true", timeout=0)
anyshell.run("true", timeout=-1)
anyshell.run("true", timeout=float("nan"))
anyshell.run("true", silence="long")
anyshell.run("true", silence=0)
anyshell.run("true", grace=-1)
anyshell.run("true", grace=None)
anyshell.run("true", left_behind="kil")
anyshell.run("true", left_behind="adopt")
anyshell.run("true", shell="fish")
anyshell.run("true", shell="/no/such/shell")
anyshell.run("true", shell=3)
anyshell.run("true", limits=5)
anyshell.run("true", record=3)
anyshell.run("true", record="/no/such/directory/x.cast")
anyshell.run("true", effects="/tmp")
anyshell.run("true", effects=[3])
anyshell.Environment.detect(3)
anyshell.Environment.detect("http://host")
anyshell.Environment.detect("ssh://")
anyshell.Environment.detect("ssh://host:port")
anyshell.Environment.detect("ssh://user:secret@host")
anyshell.Environment.detect("")
anyshell.Environment.detect(cwd=3)
anyshell.Environment.detect(shell="")
anyshell.Environment.detect(limits=5)
anyshell.Environment.detect(artifacts=True)
anyshell.Environment.detect(prefix="")
anyshell.Environment.detect(prefix="nice; rm")
anyshell.Environment.detect(max_jobs=0)
anyshell.Environment.detect(max_terminals="2")
anyshell.Environment.detect(background_after=-1)
anyshell.Environment.detect(policy="allow")
anyshell.Environment.detect(variables="PATH")
anyshell.Environment.detect(redact="secret")
anyshell.Environment.detect(audit="file")
anyshell.Environment.detect(resolvers={"Bad Scheme": None})
anyshell.Environment.detect(reach="workspace")
anyshell.Environment.detect().run("true")
anyshell.Environment.detect().files
anyshell.connect("nosuchhost.invalid")
anyshell.connect("ssh://127.0.0.1:1")
loose.session()
loose.terminal("cat")
loose.stream("true")
await loose.start("true")
await loose.run("true", left_behind="adopt")
await env.run("true", listener=3)
await env.run("true", terminal=80)
await env.run("true", terminal=anyshell.Terminal(columns=0))
await env.run("true", terminal=anyshell.Terminal(), split_stderr=True)
await env.run("true", background_after="soon")
await env.start("true", ready="(")
await env.start("true", ready=70000)
await env.start("true", detach=True, timeout=5)
env.stream("true", by="words")
await anext(aiter(env.stream("true")))
env.stream("true").outcome
env.session(3)
env.terminal("cat", columns="80")
await env.terminal("cat").send("x")
await entered.expect("(")
await entered.expect(3)
await entered.expect([])
await entered.expect("never", timeout="5")
await entered.send(3)
await entered.send_key("Ctrl-Enterr")
await entered.send_key()
await entered.send_secret("hunter2")
await entered.resize(columns=1)
await entered.interact(escape=b"q")
env.jobs.get("j99")
await env.files.read("")
await env.files.read("no-such-file")
await env.files.write("x", "text")
await closed.run("true")
anyshell.ShellTool(env)
anyshell.ShellTool(env, approver=True)
anyshell.ShellTool(env, approver=lambda: True)
anyshell.ShellTool(loose, approver=anyshell.approve_all, session=True)
anyshell.ShellTool(env, approver=anyshell.approve_all, limits=5)
anyshell.Fleet([])
anyshell.Fleet("web-1")
anyshell.Fleet(["local", "local"])
anyshell.OutputLimits(head=-1)
anyshell.OutputLimits(budget="5k")
anyshell.run("true", reach="workspace")
anyshell.run("true", stdout="")
await env.start("true", reach="workspace")
env.session(reach="workspace")
anyshell.Policy.preset("allow-all")
anyshell.Policy.load("no-such-file.toml")
anyshell.Reach.preset("everything")
anyshell.run("exit 3").check()
anyshell.run("ls", "-l")
anyshell.run("true", shell=True)
anyshell.run("true", capture_output=True)
anyshell.run("true", check=True)
anyshell.run("true", text=True)
anyshell.run("true", input="x")
anyshell.run("true", host="web-1")
anyshell.run("true", stdout=-1)
anyshell.run("true", stdin=["a", "b"])
anyshell.run([])
anyshell.run(["ls", None])
anyshell.run("true").stdout
anyshell.run("true").returncode
bool(anyshell.run("true"))
anyshell.run("true", record="/")
anyshell.sh("rm {}")
anyshell.sh("rm", "a")
anyshell.sh("rm {0!r}", "a")
anyshell.sh("rm {}", None)
anyshell.run(anyshell.sh("echo '{}'", "a"))
env.quote(["a", "b"])
anyshell.Environment("local")
anyshell.Environment.detect("host:22")
anyshell.Environment.detect(interactive="yes")
anyshell.Environment.detect(resolvers=["skill"])
await env.run("true", control=3)
await env.files.write_text("x", b"x")
await env.files.read(3)
await entered.send_key("")
anyshell.ShellTool("local", approver=anyshell.approve_all)
anyshell.ShellTool(blocked, approver=anyshell.approve_all)
anyshell.ShellTool(env, approver=anyshell.Approved)
anyshell.blocking.ShellTool(env, approver=anyshell.approve_all)
anyshell.Fleet(None)
anyshell.Policy("workspace")
anyshell.Audit("")
""".strip().splitlines()


async def message(mistake: str, names: dict[str, Any]) -> str:
    """The exception as a traceback shows it; empty without an exception."""
    code = compile(mistake, "<mistake>", "eval", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        result = eval(code, names)
        for _ in range(2):
            if inspect.isawaitable(result):
                result = await result
        if hasattr(result, "aclose"):
            await result.aclose()
    except Exception as error:  # noqa: BLE001 - what is raised is what is looked at
        text = f"{type(error).__module__}.{type(error).__qualname__}: {error}".removeprefix("builtins.")
        return re.sub(r"(?<=has no address )\([^)]*\)", "(WHY)", text)
    return ""


async def messages() -> dict[str, str]:
    """Every mistake, and its message."""
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        detect = anyshell.Environment.detect
        env = await stack.enter_async_context(detect(cwd=directory))
        loose, closed = await detect(cwd=directory), await detect(cwd=directory)
        stack.push_async_callback(loose.aclose)
        await closed.aclose()
        blocked = stack.enter_context(anyshell.connect(cwd=directory))
        entered = await stack.enter_async_context(env.terminal("cat"))
        names = {
            "anyshell": anyshell,
            "env": env,
            "loose": loose,
            "closed": closed,
            "entered": entered,
            "blocked": blocked,
        }
        said = {mistake: await message(mistake, names) for mistake in MISTAKES}
        return {mistake: text.replace(directory, "DIRECTORY") for mistake, text in said.items()}


def report(said: dict[str, str]) -> str:
    """The report for a person."""
    return "\n".join(f">>> {mistake}\n{text or 'NOTHING IS SAID'}\n" for mistake, text in said.items())


if __name__ == "__main__":
    print(report(asyncio.run(messages())))
