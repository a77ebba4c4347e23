import type { Program } from './programs.ts';

/** Links, exports and terminals of a box, webhooks of its tenant, and the API of operators. */
export const extended: Program = {
  ts: `
const { admin } = new CodeBox({ url, key: process.env.ADMIN_KEY });
const tenant = await admin.tenants.create({ name: 'acme', quotas: { boxes: 3 } });
const { quotas } = await admin.tenants.update(tenant.id, { quotas: { boxes: 2 } });
const key = await admin.keys.create({ tenant: tenant.id, name: 'app', scopes: ['run', 'boxes:write', 'boxes:read', 'files'] });
const own = new CodeBox({ url, key: key.key });
const box = await own.boxes.create();
await box.files.write('a.txt', 'text');
const link = await box.links.create({ path: 'a.txt', once: true });
const linked = await (await fetch(new URL(link.url, url))).text();
const upload = await box.links.create({ path: 'b.txt', method: 'PUT', expiresInSeconds: 60 });
const links = (await Array.fromAsync(box.links.list(), ({ id, usedAt }) => [id === upload.id, usedAt !== null])).sort();
await box.links.delete(upload.id);
const target = { bucket: 'none', endpoint: 'https://s3.invalid', accessKeyId: 'a', secretAccessKey: 'b' };
const { id } = await box.exports.create({ paths: ['a.txt'], s3: target });
const exported = (await box.exports.read(id)).failure?.code;
await box.exports.cancel(id);
const exports = await Array.fromAsync(box.exports.list(), ({ to }) => to);
const terminal = await box.terminals.open({ cols: 90, rows: 30 });
terminal.write('stty size; echo $((6*7))\\n');
let shown = '';
for await (const event of terminal) {
  if (event.type === 'output') shown += new TextDecoder().decode(event.bytes);
  if (/\\b42\\b/.test(shown)) break;
}
const listed = await Array.fromAsync(box.terminals.list(), ({ id }) => id === terminal.id);
const again = await box.terminals.open({ terminal: terminal.id });
again.write('exit 3\\n');
let code;
for await (const event of again) if (event.type === 'exit') code = event.exitCode;
const gone = (await refusal(box.terminals.delete(terminal.id))).code;
await box.delete();
const hook = await own.webhooks.create({ url: 'https://example.com/hook', types: ['box.ended'] });
const changed = await own.webhooks.update(hook.id, { types: ['execution.ended'] });
const hooks = await Array.fromAsync(own.webhooks.list(), ({ id, types }) => [id === hook.id, types]);
const deliveries = (await Array.fromAsync(own.webhooks.deliveries(hook.id))).length;
const isNew = (await own.webhooks.rotate(hook.id, { graceSeconds: 60 })).secret !== hook.secret;
await own.webhooks.delete(hook.id);
const rotated = await admin.keys.rotate(key.id, { overlapSeconds: 0 });
await admin.keys.revoke(rotated.id);
const keys = (await Array.fromAsync(admin.keys.list({ tenant: tenant.id }), ({ state }) => state)).sort();
await admin.tenants.delete(tenant.id);
const audit = await Array.fromAsync(admin.audit({ tenant: tenant.id }), ({ action }) => action);
return {
  boxes: quotas.boxes, linked, links, size: shown.includes('30 90'), listed, code, gone, secret: hook.secret.slice(0, 6),
  changed: changed.types, isNew, exported, exports, hooks, deliveries, keys, audit: [audit.at(-1), audit[0]],
  refused: (await refusal(Array.fromAsync(own.admin.tenants.list()))).code,
};`,
  py: `
import re
admin = CodeBox(key=os.environ["ADMIN_KEY"]).admin
tenant = admin.tenants.create("acme", quotas={"boxes": 3})
quotas = admin.tenants.update(tenant.id, quotas={"boxes": 2}).quotas
key = admin.keys.create(tenant.id, "app", scopes=["run", "boxes:write", "boxes:read", "files"])
own = CodeBox(key=key.key)
with own.boxes.create() as box:
    box.files.write("a.txt", "text")
    link = box.links.create("a.txt", once=True)
    linked = urllib.request.urlopen(link.url).read().decode()
    upload = box.links.create("b.txt", method="PUT", expires_in_seconds=60)
    links = sorted([one.id == upload.id, one.used_at is not None] for one in box.links.list())
    box.links.delete(upload.id)
    target = {"bucket": "none", "endpoint": "https://s3.invalid", "access_key_id": "a", "secret_access_key": "b"}
    export = box.exports.create(paths=["a.txt"], s3=target)
    exported = box.exports.get(export.id).failure.code
    box.exports.cancel(export.id)
    exports = [one.to for one in box.exports.list()]
    shown = ""
    with box.terminals.open(cols=90, rows=30) as terminal:
        terminal.write("stty size; echo $((6*7))\\n")
        for output in terminal:
            shown += output.decode()
            if re.search(r"\\b42\\b", shown): break
        listed = [one.id == terminal.id for one in box.terminals.list()]
    with box.terminals.open(terminal.id) as again:
        again.resize(100, 40)
        again.write(b"exit 3\\n")
        for _ in again: pass
        code = again.exit_code
    gone = refusal(lambda: box.terminals.delete(terminal.id)).code
    assert refusal(lambda: box.terminals.open(terminal.id)).code == "not_found"
async def main():
    async with AsyncCodeBox(key=key.key) as codebox, await codebox.boxes.create() as box:
        async with await box.terminals.open(cwd="/tmp") as terminal:
            await terminal.write("echo $PWD; exit\\n")
            return b"".join([output async for output in terminal])
assert b"/tmp" in asyncio.run(main())
hook = own.webhooks.create("https://example.com/hook", ["box.ended"])
changed = own.webhooks.update(hook.id, types=["execution.ended"])
hooks = [[one.id == hook.id, one.types] for one in own.webhooks.list()]
deliveries = len(list(own.webhooks.deliveries(hook.id)))
is_new = own.webhooks.rotate(hook.id, grace_seconds=60).secret != hook.secret
own.webhooks.delete(hook.id)
rotated = admin.keys.rotate(key.id, overlap_seconds=0)
admin.keys.revoke(rotated.id)
keys = sorted(one.state for one in admin.keys.list(tenant=tenant.id))
admin.tenants.delete(tenant.id)
audit = [entry.action for entry in admin.audit(tenant=tenant.id)]
show({
    "boxes": quotas.boxes, "linked": linked, "links": links, "size": "30 90" in shown, "listed": listed, "code": code, "gone": gone,
    "secret": hook.secret[:6], "changed": changed.types, "isNew": is_new, "exported": exported, "exports": exports, "hooks": hooks, "deliveries": deliveries, "keys": keys,
    "audit": [audit[-1], audit[0]], "refused": refusal(lambda: list(own.admin.tenants.list())).code,
})`,
};
