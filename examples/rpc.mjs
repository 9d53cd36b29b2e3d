// A client of `anyshell rpc` for Node: node rpc.mjs [COMMAND [ARGUMENT...]]
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export class Anyshell {
  #next = 1;
  #waiting = new Map(); // id -> { resolve, reject, onOutput }

  constructor(command = ["anyshell", "rpc"]) {
    this.server = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.server.stdout }).on("line", (line) => this.#take(JSON.parse(line)));
    this.ended = new Promise((resolve) => this.server.on("close", resolve));
    this.ended.then((code) => this.#waiting.forEach(({ reject }) => reject(new Error(`ended with ${code}`))));
  }

  #take({ id, event, channel, data, result, error }) {
    const request = this.#waiting.get(id);
    if (event === "output") return request?.onOutput?.(data, channel);
    this.#waiting.delete(id);
    if (error === undefined) return request?.resolve(result);
    request?.reject(Object.assign(new Error(error.message), error));
  }

  /** Send a request. The promise of the answer has an `id`, which the method `abort` takes. */
  call(method, params = {}, onOutput = undefined) {
    const id = this.#next++;
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, onOutput }));
    this.server.stdin.write(JSON.stringify({ id, method, params }) + "\n");
    return Object.assign(answer, { id });
  }

  /** Stop everything that the server started, and wait until the server has ended. */
  close() {
    this.server.stdin.end();
    return this.ended;
  }
}

const shell = new Anyshell(process.argv.length > 2 ? process.argv.slice(2) : undefined);
const { host, shell: kind } = await shell.call("hello", { version: 1, client: "rpc.mjs" });
console.log(`${kind} on ${host}`);

const show = (text, channel) => process.stdout.write(`${channel}: ${text}`);
const ended = await shell.call("stream", { command: "echo out; exit 3" }, show);
console.log(ended.status, ended.exit_code);

const long = shell.call("run", { command: "sleep 1000", session: "main" });
await shell.call("abort", { id: long.id });
console.log((await long).status);

await shell.call("nonsense").catch((error) => console.log(error.code));
console.log("ended with", await shell.close());
