/** One program for each client, whose results are the same. */
export interface Program {
  ts: string;
  py: string;
}

/** The first lines of each program. `ask` makes the test do something; `refusal` resolves with how a call was refused. */
export const beginning: Program = {
  ts: `
import { CodeBox, CodeBoxError } from 'codebox-client';
const { CODEBOX_URL: url, CODEBOX_KEY: key, STRANGER_KEY, CONTROL } = process.env;
const codebox = new CodeBox({ url, key });
const ask = (what) => fetch(\`\${CONTROL}/\${what}\`, { method: 'POST' });
const refusal = (call) => call.then(() => 'not refused', (error) => error instanceof CodeBoxError ? error : String(error));
`,
  py: `
import asyncio, io, os, pathlib, tempfile, urllib.request
from codebox_client import AsyncCodeBox, CodeBox, CodeBoxError
codebox = CodeBox()
def ask(what): urllib.request.urlopen(urllib.request.Request(f"{os.environ['CONTROL']}/{what}", method="POST")).read()
def refusal(call):
    try: call()
    except CodeBoxError as error: return error
    raise AssertionError("not refused")
`,
};

export const tour: Program = {
  ts: `
const box = await codebox.boxes.create({ user: 'ada', metadata: { of: 'tour' } });
await box.run('x = 41');
const { text } = await box.run('x + 1');
const plot = await box.run('import matplotlib.pyplot as plt; _ = plt.plot([1, 4, 9])');
const picture = plot.outputs.find(({ type }) => type === 'display')?.mime['image/png'];
const { error } = await box.run('1/0');
const late = await box.run('while True: pass', { timeoutSeconds: 1 });
const started = await box.start('x * 2');
const doubled = (await box.executions.wait(started.id)).text;
const context = await box.contexts.create({ language: 'python' });
const apart = await box.run('x', { context: context.id });
const command = await box.commands.run('cat; exit 3', { stdin: 'in' });
const sort = await box.commands.start(['sort']);
await box.commands.input(sort.id, { text: 'b\\na\\n', eof: true });
const { installed } = await box.packages.install(['cowsay']);
await box.files.write('a folder/ü.txt', 'text');
const pieces = new ReadableStream({
  start(controller) {
    for (let i = 0; i < 30; i++) controller.enqueue(new Uint8Array(100_000).fill(i));
    controller.close();
  },
});
await box.files.write('large', pieces);
let bytes = 0;
for await (const piece of (await box.files.open('large')).body) bytes += piece.length;
const files = await Array.fromAsync(box.files.list('a folder'), ({ path }) => path);
const boxes = await Array.fromAsync(codebox.boxes.list({ metadata: 'of=tour' }), ({ id }) => id === box.id);
const { state } = await box.refresh();
const sorted = (await box.commands.wait(sort.id)).stdout;
const file = await box.files.readText('a folder/ü.txt');
await box.delete();
return {
  text, doubled, file, bytes, files, boxes, state, sorted,
  png: picture?.slice(0, 5), error: error.name, late: late.status, apart: apart.error.name,
  command: [command.exitCode, command.stdout], installed: installed.map(({ name }) => name),
  ended: (await refusal(box.run('1'))).code,
};`,
  py: `
import base64
with codebox.boxes.create(user="ada", metadata={"of": "tour"}) as box:
    box.run("x = 41")
    text = box.run("x + 1").text
    plot = box.run("import matplotlib.pyplot as plt; _ = plt.plot([1, 4, 9])")
    error = box.run("1/0").error
    late = box.run("while True: pass", timeout_seconds=1)
    started = box.start("x * 2")
    doubled = box.executions.wait(started.id).text
    context = box.contexts.create(language="python")
    apart = box.run("x", context=context.id)
    command = box.commands.run("cat; exit 3", stdin="in")
    sort = box.commands.start(["sort"])
    box.commands.input(sort.id, b"b\\na\\n", eof=True)
    installed = box.packages.install("cowsay").installed
    box.files.write("a folder/ü.txt", "text")
    with tempfile.TemporaryDirectory() as folder:
        local = pathlib.Path(folder, "large")
        local.write_bytes(bytes(3_000_000))
        box.files.write("large", local)
        box.files.download("large", pathlib.Path(folder, "copy"))
        size = pathlib.Path(folder, "copy").stat().st_size
    box.files.write("from a file", io.BytesIO(b"bytes"))
    assert box.files.read("from a file", start=1, end=2) == b"yt"
    files = [entry.path for entry in box.files.list("a folder")]
    boxes = [other.id == box.id for other in codebox.boxes.list(metadata="of=tour")]
    state = box.refresh().state
    sorted = box.commands.wait(sort.id).stdout
    file = box.files.read_text("a folder/ü.txt")
show({
    "text": text, "doubled": doubled, "file": file, "bytes": size, "files": files, "boxes": boxes, "state": state, "sorted": sorted,
    "png": base64.b64encode(plot.png).decode()[:5], "error": error.name, "late": late.status,
    "apart": apart.error.name, "command": [command.exit_code, command.stdout],
    "installed": [package.name for package in installed], "ended": refusal(lambda: box.run("1")).code,
})`,
};

export const talk: Program = {
  ts: `
await using box = await codebox.boxes.create();
let printed = '';
const greeting = await box.stream('print("Hello", input("Who? "))');
for await (const event of greeting) {
  if (event.type === 'input_request') await greeting.input('Ada');
  if (event.type === 'stdout') printed += event.text;
}
const endless = await box.stream('kept = 1\\nwhile True: pass');
let end;
for await (const event of endless) {
  if (event.type === 'started') await endless.interrupt();
  if (event.type === 'done') end = [event.status, event.stateLost];
}
const idle = await refusal(box.executions.input(greeting.id, 'too late'));
return { printed, end, idle: [idle.code, idle.reason] };`,
  py: `
async def pieces():
    for _ in range(3): yield b"piece "
async def main():
    async with AsyncCodeBox() as codebox, await codebox.boxes.create() as box:
        printed = ""
        greeting = box.stream("print('Hello', input('Who? '))")
        async for event in greeting:
            if event.type == "input_request": await greeting.input("Ada")
            if event.type == "stdout": printed += event.text
        async with box.stream("kept = 1\\nwhile True: pass") as endless:
            async for event in endless:
                if event.type == "started": await endless.interrupt()
                if event.type == "done": end = [event.status, event.state_lost]
        try: await box.executions.input(greeting.id, "too late")
        except CodeBoxError as error: idle = error
        await box.files.write("streamed", pieces())
        async with box.files.open("streamed") as content:
            assert b"".join([piece async for piece in content]) == b"piece piece piece "
    show({"printed": printed, "end": end, "idle": [idle.code, idle.reason]})
asyncio.run(main())`,
};

const counting = 'import time\\nfor i in range(20):\\n  print(i)\\n  time.sleep(0.05)';

/** Reads a stream that is cut several times, or whose gateway is restarted. */
export const interrupted = (when: string, what: string): Program => ({
  ts: `
const box = await codebox.boxes.create();
const events = [];
for await (const event of await box.stream('${counting}')) {
  events.push(event);
  if (${when.replaceAll('seq', 'event.seq')}) await ask('${what}');
}
await box.delete();
return {
  seqs: events.map(({ seq }) => seq),
  printed: events.map((event) => (event.type === 'stdout' ? event.text : '')).join(''),
  status: events.at(-1).status,
};`,
  py: `
async def main():
    events = []
    async with AsyncCodeBox() as codebox, await codebox.boxes.create() as box:
        async for event in box.stream("${counting}"):
            events.append(event)
            if ${when.replaceAll('seq', 'event.seq').replaceAll('===', '==')}: await asyncio.to_thread(ask, "${what}")
    show({
        "seqs": [event.seq for event in events],
        "printed": "".join(event.text for event in events if event.type == "stdout"),
        "status": events[-1].status,
    })
asyncio.run(main())`,
});

/** Loses the responses to a creation, to a run, to a run that is streamed, and to changes of a file. */
export const lost: Program = {
  ts: `
await ask('lose');
const box = await codebox.boxes.create({ metadata: { of: 'lost' } });
await ask('lose');
await box.run('open("ran", "a").write("once ")');
await ask('lose');
let streamed = '';
for await (const event of await box.stream('print("streamed", open("ran", "a").write("twice "))'))
  if (event.type === 'stdout') streamed += event.text;
const boxes = (await Array.fromAsync(codebox.boxes.list({ metadata: 'of=lost' }))).length;
const ran = await box.files.readText('ran');
await ask('lose');
const { code } = await refusal(box.files.write('own', '1', { create: true }));
await ask('lose');
await box.files.delete('own');
await box.delete();
return { boxes, ran, streamed, created: code };`,
  py: `
ask("lose")
with codebox.boxes.create(metadata={"of": "lost"}) as box:
    ask("lose")
    box.run("open('ran', 'a').write('once ')")
    ask("lose")
    events = box.stream("print('streamed', open('ran', 'a').write('twice '))")
    streamed = "".join(event.text for event in events if event.type == "stdout")
    boxes = len(list(codebox.boxes.list(metadata="of=lost")))
    ran = box.files.read_text("ran")
    ask("lose")
    created = refusal(lambda: box.files.write("own", "1", create=True)).code
    ask("lose")
    box.files.delete("own")
show({"boxes": boxes, "ran": ran, "streamed": streamed, "created": created})`,
};

export const refused: Program = {
  ts: `
await using box = await codebox.boxes.create({ user: 'ada' });
await box.files.write('mine', '1');
const stranger = new CodeBox({ url, key: STRANGER_KEY });
const invalid = await refusal(codebox.boxes.create({ idleSeconds: -1 }));
return {
  invalid: [invalid.code, invalid.status, invalid.errors.map(({ pointer }) => pointer)],
  logged: typeof invalid.requestId,
  key: (await refusal(new CodeBox({ url, key: 'cbx_wrong' }).boxes.get(box.id))).code,
  stranger: (await refusal(stranger.boxes.get(box.id))).code,
  theirs: (await Array.fromAsync(stranger.boxes.list())).length,
  exists: (await refusal(box.files.write('mine', '2', { create: true }))).code,
  nowhere: (await refusal(new CodeBox({ url: 'http://127.0.0.1:9', retries: 1 }).boxes.get('b'))).code,
};`,
  py: `
with codebox.boxes.create(user="ada") as box:
    box.files.write("mine", "1")
    stranger = CodeBox(key=os.environ["STRANGER_KEY"])
    invalid = refusal(lambda: codebox.boxes.create(idle_seconds=-1))
    show({
        "invalid": [invalid.code, invalid.status, [fault.pointer for fault in invalid.errors]],
        "logged": "string" if isinstance(invalid.request_id, str) else "",
        "key": refusal(lambda: CodeBox(key="cbx_wrong").boxes.get(box.id)).code,
        "stranger": refusal(lambda: stranger.boxes.get(box.id)).code,
        "theirs": len(list(stranger.boxes.list())),
        "exists": refusal(lambda: box.files.write("mine", "2", create=True)).code,
        "nowhere": refusal(lambda: CodeBox("http://127.0.0.1:9", retries=1).boxes.get("b")).code,
    })`,
};

/** Talks to a server that defers requests. */
export const deferred: Program = {
  ts: `
const { text } = await codebox.run('6 * 7');
const names = await Array.fromAsync(codebox.client.templates.list(), ({ name }) => name);
const once = await refusal(codebox.client.executions.interrupt('box-a', 'exe-a'));
const proxy = await refusal(codebox.boxes.get('proxy'));
return { text, names, once: [once.code, once.retryAfterSeconds], proxy: [proxy.code, proxy.status] };`,
  py: `
from codebox_client import Executions
text = codebox.run("6 * 7").text
names = [template.name for template in codebox.templates.list()]
once = refusal(lambda: Executions(codebox._transport, "box-a").interrupt("exe-a"))
proxy = refusal(lambda: codebox.boxes.get("proxy"))
show({"text": text, "names": names, "once": [once.code, once.retry_after_seconds], "proxy": [proxy.code, proxy.status]})`,
};

/** Talks to a server in trouble. */
export const troubled: Program = {
  ts: `
// A page on plain HTTP has none.
Object.defineProperty(crypto, 'randomUUID', { value: undefined });
const { executions, files, templates } = codebox.client;
await files.delete('busy', 'old', { ifMatch: '"1"' });
const built = await refusal(templates.build('own', {}, { idempotencyKey: false }));
const typesOf = (stream) => Array.fromAsync(stream, ({ type }) => type);
const soon = { deadlineSeconds: 0.5 };
const late = await refusal(executions.stream('late', { code: '1' }, soon));
const slow = await typesOf(await executions.stream('slow', { code: '1' }, soon));
const cut = await typesOf(executions.events('cut', 'exe-a'));
const none = await refusal(typesOf(executions.events('none', 'exe-a')));
const broken = await refusal(codebox.boxes.get('broken'));
return { built: built.code, late: late.code, slow, cut, none: none.code, broken: broken.code };`,
  py: `
from codebox_client import Executions, Files
Files(codebox._transport, "busy").delete("old", if_match='"1"')
built = refusal(lambda: codebox.templates.build("own"))
def executions(box): return Executions(codebox._transport, box)
def types_of(stream): return [event.type for event in stream]
late = refusal(lambda: types_of(executions("late").stream("1", deadline_seconds=0.5)))
slow = types_of(executions("slow").stream("1", deadline_seconds=0.5))
cut = types_of(executions("cut").events("exe-a"))
none = refusal(lambda: types_of(executions("none").events("exe-a")))
broken = refusal(lambda: codebox.boxes.get("broken"))
show({"built": built.code, "late": late.code, "slow": slow, "cut": cut, "none": none.code, "broken": broken.code})`,
};

/** The other calls of the Python client; those of the TypeScript client are in test/api/client.test.ts. */
export const others = `
import zipfile
with codebox.boxes.create(user="ada") as box, tempfile.TemporaryDirectory() as folder:
    box.files.write("a/one.txt", "first\\nneedle\\n")
    found = [(match.path, match.line) for match in box.files.search(content="needle")]
    box.files.move("a/one.txt", "b/two.txt")
    box.files.copy("b/two.txt", "b/three.txt")
    archive = pathlib.Path(folder, "b.zip")
    box.files.download_folder("b", archive)
    packed = sorted(pathlib.PurePath(name).name for name in zipfile.ZipFile(archive).namelist() if name.endswith("txt"))
    box.files.write("b.zip", archive)
    box.files.extract("b.zip", to="c")
    unpacked = sorted(entry.name for entry in box.files.list("c", recursive=True) if entry.type == "file")
    box.files.delete("b.zip")
    for change in box.files.watch("b"):
        if change.type == "ready": box.files.write("b/new", "1")
        elif change.type in ("create", "write") and change.path == "b/new": break
    box.run("kept = 1")
    [context] = [context for context in box.contexts.list() if context.default]
    names = [variable.name for variable in box.contexts.variables(context.id)]
    ran = len(list(box.executions.list()))
    box.contexts.restart(context.id)
    late = refusal(lambda: box.run("import time; time.sleep(60)", deadline_seconds=0.5))
    [sleeping] = [execution for execution in box.executions.list() if execution.status == "running"]
    box.executions.interrupt(sleeping.id)
    endless = box.stream("while True: pass")
    for _ in endless: break
    left = endless._response is None
    box.executions.interrupt(endless.id)
    with box.commands.stream(["sleep", "1000"]) as sleeping:
        box.commands.kill(sleeping.id)
        last = [event for event in sleeping][-1]
    listed = [command.id == sleeping.id for command in box.commands.list()]
    has_pip = "pip" in [package.name for package in box.packages.list()]
    built = codebox.templates.build("tools", from_template="python", commands=["echo built"], idle_seconds=77)
    log = [event for event in codebox.templates.log("tools", built.version)]
    template = codebox.templates.get("tools")
    own = [built.state, log[-1].state, template.version, template.idle_seconds, codebox.templates.version("tools", 1).state]
    own.append([version.version for version in codebox.templates.versions("tools")])
    codebox.templates.delete("tools")
    show({
        "own": own, "found": found, "left": left, "late": [late.code, late.status], "packed": packed, "unpacked": unpacked, "names": names, "ran": ran, "killed": last.status,
        "listed": listed, "hasPip": has_pip, "idle": box.update(idle_seconds=100).idle_seconds,
        "kept": box.keepalive().state, "memory": box.stats().memory.used_bytes > 0,
        "ticket": box.ticket().ticket[:4], "state": box.hibernate().state, "info": box.info.state,
        "again": box.resume().state, "same": codebox.boxes.create(user="ada", reuse=True).id == box.id,
        "once": codebox.run("print(6 * 7)").stdout, "templates": [template.name for template in codebox.templates.list()],
        "tenant": codebox.caller().tenant != "", "usage": len(list(codebox.usage())) > 0,
        "url": box.url(80, "x").endswith(f"/v1/boxes/{box.id}/ports/80/x"),
    })`;
