"""A program for pexpect, ported to anyshell: type into Python's own prompt, and read the answers from the screen."""

import asyncio
import sys

from anyshell import Environment


async def main() -> None:
    async with Environment.detect() as env:
        async with env.terminal(f"{sys.executable} -i -q") as terminal:  # pexpect.spawn("python -i -q")
            await terminal.expect(">>> ")  # child.expect_exact(">>> ")
            await terminal.send("6 * 7\r")  # child.sendline("6 * 7")
            await terminal.expect("^42$")  # child.expect(r"42\r\n")
            print(await terminal.wait_for_input())  # waits for the next prompt: certain, without a pattern
            await terminal.send_key("Ctrl-D")  # child.sendeof()
            print((await terminal.wait()).exit_code)  # child.wait()


asyncio.run(main())
