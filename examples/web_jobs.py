"""A web server whose requests start jobs: POST / with a command starts a job, GET /ID shows the job, DELETE /ID stops the job.

The server listens only on this machine, and runs every command that is sent. For real use, allow only a fixed list of commands.
"""

import asyncio
import json
import sys

from anyshell import AnyshellError, Environment


async def answer(env: Environment, method: str, path: str, body: str) -> tuple[int, object]:
    """Handle a request, and return the status and the content of the answer."""
    if method == "POST":
        job = await env.start(body)
        return 202, {"id": job.id}
    found = next((each for each in env.jobs.list() if each.id == path.strip("/")), None)
    if found is None:
        return 404, {"error": "no such job"}
    if method == "DELETE":
        await found.stop()
    return 200, {"status": found.status, "output": (await found.output()).text}


async def main(port: int) -> None:
    async with Environment.detect(max_jobs=4) as env:  # a fifth job is an error; the end stops all jobs

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            length = next(
                (line.split(":")[1] for line in head.lower().splitlines() if "content-length:" in line), "0"
            )
            try:
                status, content = await answer(
                    env, method, path, (await reader.readexactly(int(length))).decode()
                )
            except AnyshellError as error:
                status, content = 503, {"error": str(error)}
            data = json.dumps(content).encode()
            writer.write(
                b"HTTP/1.1 %d -\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(data))
                + data
            )
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        async with server:
            await server.serve_forever()


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
