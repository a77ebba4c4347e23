/**
 * Runs code that calls tools of the client, as `python3 -c` with four arguments: a mark, the language, the names of the tools as
 * JSON, and the code. Calls are lines of its stdout that begin with the mark, with all calls made at once in one; each line of its stdin
 * is the number of such a line with the results. In Python, tools are async functions; in Bash, functions whose argument is JSON.
 */
export const toolRunner = String.raw`
import ast, asyncio, json, keyword, linecache, os, re, shlex, subprocess, sys, tempfile, traceback

mark, language, names, code = sys.argv[1:5]
del sys.argv[1:]
words = "if then else elif fi case esac for while until do done in function select time coproc declare typeset local"
bash_words = (words + " readonly export unset").split()
client = """
import json, socket, sys
path, name, given = sys.argv[1:]
try:
    given = json.loads(given or "{}")
except ValueError:
    sys.exit(f"{name}: the argument is not JSON")
with socket.socket(socket.AF_UNIX) as link:
    link.connect(path)
    link.sendall(json.dumps([name, given]).encode())
    link.shutdown(socket.SHUT_WR)
    answer = json.loads(link.makefile().read())
if "error" in answer:
    sys.exit(answer["error"])
print(json.dumps(answer["result"], separators=(",", ":"), ensure_ascii=False))
"""


def identifier(name):
    name = re.sub(r"[-\s.]" if language == "bash" else r"[-\s]", "_", name)
    name = re.sub(r"^(?=[0-9])", "_", re.sub(r"[^a-zA-Z0-9_]", "", name))
    return name + "_tool" if name in (bash_words if language == "bash" else keyword.kwlist) else name


class Tools:
    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.count = self.batch = 0
        self.asked, self.answers, self.open, self.received = [], {}, set(), b""
        self.loop.add_reader(0, self.receive)

    def call(self, name, given):
        call = {"id": f"call_{self.count + 1:03}", "name": name, "input": given}
        json.dumps(call)
        self.count += 1
        self.asked.append(call)
        future = self.answers[call["id"]] = self.loop.create_future()
        # Calls that are made at once are asked together.
        self.loop.call_soon(self.ask)
        return future

    def ask(self):
        if self.open or not self.asked:
            return
        self.open = {call["id"] for call in self.asked}
        sys.stdout.flush()
        line = f"{mark}{json.dumps(self.asked)}\n".encode()
        while line:
            line = line[os.write(1, line):]
        self.asked = []

    def receive(self):
        part = os.read(0, 65536)
        if not part:
            self.loop.remove_reader(0)
            return
        *lines, self.received = (self.received + part).split(b"\n")
        for line in lines:
            batch, results = json.loads(line)
            # Results may be sent again by a client that has lost the response.
            if batch == self.batch:
                self.batch += 1
                self.answer({result["call_id"]: result for result in results})

    def answer(self, results):
        for call in self.open:
            future, result = self.answers.pop(call), results.get(call)
            if future.done():
                continue
            if result is None or result["is_error"]:
                message = result and result.get("error_message")
                future.set_exception(RuntimeError(message or "The tool has returned no result."))
            else:
                future.set_result(decoded(result.get("result")))
        self.open = set()
        self.loop.call_soon(self.ask)


def decoded(result):
    try:
        return json.loads(result) if isinstance(result, str) and result.lstrip()[:1] in ("{", "[") else result
    except ValueError:
        return result


def stub(tools, name):
    async def tool(**given):
        return await tools.call(name, given)

    return tool


async def run_python(tools):
    linecache.cache["<code>"] = (len(code), None, code.splitlines(True), "<code>")
    variables = {"__name__": "__main__", "asyncio": asyncio, "json": json}
    variables.update({identifier(name): stub(tools, name) for name in json.loads(names)})
    try:
        main = ast.parse("async def __main__(): pass", "<code>")
        main.body[0].body = ast.parse(code, "<code>").body or main.body[0].body
        exec(compile(main, "<code>", "exec"), variables)
    except SyntaxError as error:
        traceback.print_exception(error.with_traceback(None))
        return 1
    try:
        await variables["__main__"]()
    except Exception as error:
        traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))
        return 1
    return 0


async def run_bash(tools):
    async def serve(reader, writer):
        name, given = json.loads(await reader.read())
        try:
            answer = {"result": await tools.call(name, given)}
        except RuntimeError as error:
            answer = {"error": str(error)}
        writer.write(json.dumps(answer).encode())
        writer.close()

    with tempfile.TemporaryDirectory() as folder:
        await asyncio.start_unix_server(serve, folder + "/tools")
        with open(folder + "/functions", "w") as functions:
            for name in json.loads(names):
                ask = shlex.join(["python3", "-I", "-S", "-c", client, folder + "/tools", name])
                functions.write(f'{identifier(name)}() {{ {ask} "$1"; }}\n')
        env = {**os.environ, "BASH_ENV": folder + "/functions"}
        process = await asyncio.create_subprocess_exec("bash", "-c", code, stdin=subprocess.DEVNULL, env=env)
        status = await process.wait()
        return status if status >= 0 else 128 - status


async def main():
    tools = Tools()
    return await (run_bash(tools) if language == "bash" else run_python(tools))


sys.exit(asyncio.run(main()))
`;
