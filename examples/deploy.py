"""A deployment over a fleet: two hosts at a time, and no further host after a failure.

python deploy.py web-1 web-2 web-3
"""

import asyncio
import sys

from anyshell import Fleet

STEPS = "set -e; mkdir -p releases; date > releases/next; mv releases/next releases/now; cat releases/now"


async def main(hosts: list[str]) -> int:
    failed = 0
    async with Fleet(hosts, batch=2, stop_on_failure=True) as fleet:
        async for result in fleet.run(STEPS, timeout=300):
            if result.ok and result.outcome is not None:
                print(f"{result.host}: released at {result.outcome.output.text.strip()}")
                continue
            failed += 1
            why = result.error or (
                result.outcome.output.text.strip() if result.outcome is not None else "not started"
            )
            print(f"{result.host}: {result.state}: {why}")
    return 1 if failed else 0


sys.exit(asyncio.run(main(sys.argv[1:] or ["local"])))
