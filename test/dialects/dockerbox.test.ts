import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { drivers } from '../api/harness.ts';
import { freePort } from '../free-port.ts';
import { pythonClients, runPython } from './clients.ts';

const image = process.env.CODEBOX_BOX_IMAGE ?? 'codebox-box:latest';
const run = promisify(execFile);
const plot = 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()';

describe.each(drivers.filter((name) => name === 'docker'))(
  'the box image as the container of codeboxapi, on %s',
  () => {
    test('it keeps state, plots, reports errors, moves files, and ends when nobody uses it', async () => {
      const port = await freePort();
      const seen = await runPython<unknown[]>(
        await pythonClients('codeboxapi==0.2.6'),
        `
from codeboxapi import CodeBox
box = CodeBox(api_key="docker", image=${JSON.stringify(image)}, port_or_range=(${port}, ${port + 20}), timeout=0.25)
box.exec("x = 20; import os")
seen = [box.healthcheck(), [(one.type, one.content) for one in box.exec("print(x); x + 1").chunks], box.exec("os.getuid()").text]
error = box.exec("1 / 0")
seen += [error.errors, "ZeroDivisionError" in error.text, len(box.exec(${JSON.stringify(plot)}).images)]
seen += [box.exec("a = '</txt>' * 3 + '<img>'; print(a)").text, len(box.exec("print('x' * 20_000_000)").text)]
box.upload("folder/file.txt", b"content")
seen += [box.download("folder/file.txt").get_content().decode(), box.exec("cat folder/file.txt; echo; echo two", kernel="bash").text]
seen += [box.exec("seq 3", kernel="bash").text, [one.path for one in box.list_files()], "x" in box.show_variables(), "numpy" in box.list_packages()]
box.restart()
seen += [box.exec("x").errors, box.client.post("/exec", json={"code": "1", "kernel": "other"}).status_code, box.client.get("/files/download/..%2fhome").status_code]
show([*seen, box.port])`,
        { DOCKER_HOST: process.env.DOCKER_HOST ?? '' },
      );
      const used = seen.pop();
      expect(seen).toEqual([
        ...[
          'healthy',
          [
            ['txt', '20\n'],
            ['txt', '21'],
          ],
          '1000',
        ],
        ...[['ZeroDivisionError: division by zero'], true, 1, '</txt></txt></txt><img>\n', 20_000_001],
        ...['content', 'content\ntwo\n', '1\n2\n3\n', ['folder/file.txt'], true, true],
        ...[["NameError: name 'x' is not defined"], 422, 422],
      ]);
      const containers = async () =>
        (await run('docker', ['ps', '--quiet', '--filter', `publish=${used}`])).stdout.split('\n').filter(Boolean)
          .length;
      await expect.poll(containers, { timeout: 60_000 }).toBe(0);
    });
  },
);
