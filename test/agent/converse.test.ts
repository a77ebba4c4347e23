import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import type { LanguageModel } from '../../services/agent/models/model.ts';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { downloadWheels } from '../api/wheels.ts';
import { askQuestion, limits, modelAt, notices, results, statesOf } from './ask-question.ts';
import { type ModelServer, type Reply, runs, startModelServer, wires } from './model-server.ts';

const calls = (name: string, text: string): Reply => ({ calls: [{ name, arguments: text }] });

describe.each(anyDriver)('an answer on the %s driver', (driver) => {
  let wheels: Awaited<ReturnType<typeof downloadWheels>>;
  let gateway: RunningGateway;
  let server: ModelServer;
  let box: Box;
  beforeAll(async () => {
    wheels = await downloadWheels('cowsay', 'pyserial');
    [gateway, server] = await Promise.all([
      startGateway(driver, { CODEBOX_WHEELS_DIR: wheels.folder }),
      startModelServer(),
    ]);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await gateway?.dispose();
    await wheels?.[Symbol.asyncDispose]();
  });

  describe.each(wires)('over the wire of %s', (wire) => {
    // These tests do not depend on the wire of the model.
    const testOnce = wire === wires[0] ? test : () => {};
    let model: LanguageModel;
    beforeAll(async () => {
      box = await gateway.createBox();
      model = modelAt(server, wire);
    });

    test('a plot is drawn from a file of the reader and shown to the reader', async () => {
      await gateway.client.files.write(box.id, 'sales.csv', 'year,sales\n2023,5\n2024,7\n');
      const code = `import pandas as pd, matplotlib.pyplot as plt
df = pd.read_csv('sales.csv')
df.plot(x='year', y='sales'); plt.savefig('sales.png'); plt.show()
print(df.sales.sum())`;
      server.script(runs(code, 'python', 'I look.'), { text: 'Sales were 12 in all.' });
      const answer = await askQuestion({ gateway, box, model }, 'Plot the sales.');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2, error: null });
      expect(answer.text).toBe('I look.Sales were 12 in all.');
      const [result] = results(answer);
      expect(result).toContain('12');
      expect(result).toContain('[1 figure was shown to the reader.]');
      expect(result).toContain('[Files made: sales.png]');
      const pictures = answer.events.filter(
        (event) => event.type === 'output' && event.event.type === 'display' && 'image/png' in event.event.mime,
      );
      expect(pictures.length).toBe(1);
      expect(statesOf(answer)).toEqual(['running', 'done']);
      expect(answer.messages.map(({ role }) => role)).toEqual(['assistant', 'tool', 'assistant']);
      expect(answer.tokens.output).toBeGreaterThan(0);
    });

    test('the model gets an error with its position and without colours, and can fix it', async () => {
      server.script(runs('sales = [1, 2]\nsales.total()'), runs('print(sum(sales))'), { text: 'It is 3.' });
      const answer = await askQuestion({ gateway, box, model }, 'What is the sum?');
      expect(answer).toMatchObject({ status: 'ok', rounds: 3 });
      const [error = '', mended] = results(answer);
      expect(error).toContain("AttributeError: 'list' object has no attribute 'total'");
      expect(error).toContain('sales.total()');
      expect(error).not.toContain('\u001b');
      expect(mended).toBe('3');
      expect(server.requests.at(-1)?.messages.filter(({ role }) => role === 'tool').length).toBe(2);
    });

    test('the same mistake three times ends the answer with a notice', async () => {
      const explanation = { text: 'I could not divide.' };
      server.script(
        runs('1/0'),
        runs('print(1)'),
        runs('x = 5\n1/0'),
        runs('y = 6\n1/0'),
        explanation,
        runs('print("never")'),
      );
      const answer = await askQuestion({ gateway, box, model }, 'Divide.');
      expect(answer).toMatchObject({ status: 'limit', rounds: 5, error: null });
      expect(answer.text).toBe('I could not divide.');
      expect(notices(answer, 'limit')).toEqual(['Stopped: the same mistake was made 3 times.']);
      expect(results(answer).length).toBe(4);
      expect(JSON.stringify(server.requests.at(-1)?.messages)).toContain('The same mistake was made 3 times.');
      expect(answer.messages.at(-1)).toEqual({ role: 'assistant', content: 'I could not divide.', calls: [] });
    });

    test('an endless answer ends after its maximum of rounds, the last of which cannot run code', async () => {
      server.script(...Array.from({ length: 20 }, (_, round) => runs(`print(${round})`)));
      const answer = await askQuestion({ gateway, box, model }, 'Count for ever.', {
        limits: { ...limits, rounds: 5 },
      });
      expect(answer).toMatchObject({ status: 'limit', rounds: 5 });
      expect(server.requestCount()).toBe(5);
      expect(results(answer)).toEqual(['0', '1', '2', '3']);
    });

    testOnce('a missing module is installed and the code rerun without another round of the model', async () => {
      const fresh = await gateway.createBox();
      server.script(runs('import cowsay\nprint(cowsay.__name__)'), { text: 'Done.' });
      const answer = await askQuestion({ gateway, box: fresh, model }, 'Moo.');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2 });
      expect(results(answer)).toEqual(['cowsay']);
      expect(notices(answer, 'installed')).toEqual([expect.stringMatching(/^Installed cowsay \d/)]);
    });

    testOnce('a module that is missing in mid-run is installed, and nothing runs twice', async () => {
      const fresh = await gateway.createBox();
      const once = 'print("one")\nopen("ran.txt", "a").write("x")\nimport serial';
      server.script(runs(once), runs('import serial\nprint(serial.__name__)'), { text: 'Done.' });
      const strict = { ...limits, rounds: 3, sameMistake: 1 };
      const answer = await askQuestion({ gateway, box: fresh, model }, 'Moo.', { limits: strict });
      expect(answer).toMatchObject({ status: 'ok', rounds: 3 });
      expect(await gateway.client.files.readText(fresh.id, 'ran.txt')).toBe('x');
      const [first, second] = results(answer);
      expect(first).toMatch(/^one\n[\s\S]*Installed pyserial \S+\. What stands before the import has run/);
      expect(first).not.toContain('do it without');
      expect(second).toBe('serial');
      expect(notices(answer, 'installed')).toEqual([expect.stringMatching(/^Installed pyserial \d/)]);
    });

    testOnce('the model is informed at once of a module that cannot be installed', async () => {
      server.script(runs('print(1)\nimport no_such_module_anywhere'), { text: 'It is not there.' });
      const answer = await askQuestion({ gateway, box, model }, 'Import it.');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2 });
      expect(results(answer)[0]).toContain('do it without no_such_module_anywhere');
      expect(notices(answer, 'installed')).toEqual([]);
    });

    test('calls of one round run in order, and those beyond the eighth are refused', async () => {
      const numbers = Array.from({ length: 10 }, (_, number) => number);
      const many = numbers.map((number) => ({
        name: 'run_code',
        arguments: JSON.stringify({ code: `print(${number})` }),
      }));
      server.script({ calls: many }, { text: 'Done.' });
      const answer = await askQuestion({ gateway, box, model }, 'Count.');
      expect(results(answer).slice(0, 8)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
      expect(results(answer).slice(8)).toEqual(Array(2).fill('Refused: at most 8 calls at once.'));
    });

    test('tools write, list and read files without code', async () => {
      const fresh = await gateway.createBox();
      const write = { path: '/mnt/data/notes/a.txt', content: 'one' };
      server.script(
        calls('write_file', JSON.stringify(write)),
        calls('list_files', '{"path": "notes"}'),
        calls('read_file', '{"path": "sandbox:/mnt/data/notes/a.txt"}'),
        calls('read_file', '{"path": "nowhere.txt"}'),
        { text: 'Done.' },
      );
      const answer = await askQuestion({ gateway, box: fresh, model }, 'Write.');
      expect(results(answer).slice(1, 3)).toEqual(['notes/a.txt (3 bytes)', 'one']);
      const tools = answer.events.flatMap((event) => (event.type === 'tool' ? [[event.name, event.ok]] : []));
      expect(tools).toEqual([
        ['write_file', true],
        ['list_files', true],
        ['read_file', true],
        ['read_file', false],
      ]);
    });

    test('declined code is not run, and the model gets the reason', async () => {
      server.script(runs('open("forbidden", "w")'), { text: 'All right.' });
      const approve = async () => ({ approved: false, reason: 'not now' });
      const answer = await askQuestion({ gateway, box, model }, 'Write.', { approve });
      expect(statesOf(answer)).toEqual(['waiting', 'declined']);
      expect(results(answer)[0]).toContain('declined this: not now');
      const { error } = await gateway.run(box.id, 'open("forbidden")');
      expect(error?.name).toBe('FileNotFoundError');
    });

    testOnce('with approval on, package installations and file writes of the model wait too', async () => {
      const write = JSON.stringify({ path: 'json.py', content: 'print("shadowed")' });
      const decisions = [false, false, true];
      server.script(
        calls('write_file', write),
        calls('install_packages', '{"packages": ["cowsay"]}'),
        calls('write_file', write),
        { text: 'Done.' },
      );
      const approve = async () => ({ approved: decisions.shift() ?? true });
      const fresh = await gateway.createBox();
      const answer = await askQuestion({ gateway, box: fresh, model }, 'Write.', { approve });
      expect(statesOf(answer)).toEqual(['waiting', 'declined', 'waiting', 'declined', 'waiting', 'running', 'done']);
      const tools = answer.events.flatMap((event) => (event.type === 'tool' ? [event.name] : []));
      expect(tools).toEqual(['write_file']);
      expect(await gateway.client.files.readText(fresh.id, 'json.py')).toBe('print("shadowed")');
      expect((await gateway.run(fresh.id, 'import cowsay')).error?.name).toBe('ModuleNotFoundError');
    });

    test('stopping interrupts the code and keeps its variables for the next question', async () => {
      const stopping = new AbortController();
      server.script(runs('kept = 41\nprint("begun", flush=True)\nimport time\ntime.sleep(100)', 'python', 'Wait.'));
      const stopped = await askQuestion({ gateway, box, model }, 'Sleep.', {
        signal: stopping.signal,
        onEvent: (event) => {
          if (event.type === 'output' && event.event.type === 'stdout') stopping.abort();
        },
      });
      expect(stopped).toMatchObject({ status: 'stopped', rounds: 1, error: null });
      expect(statesOf(stopped)).toEqual(['running', 'stopped']);
      expect(stopped.messages.map(({ role }) => role)).toEqual(['assistant', 'tool']);
      expect(stopped.events).toContainEqual(expect.objectContaining({ type: 'ran', status: 'interrupted' }));
      expect(results(stopped)).toEqual(['The reader stopped it. Variables are kept.']);
      server.script(runs('print(kept + 1)'), { text: 'It is 42.' });
      const history = [{ role: 'user' as const, content: 'Sleep.' }, ...stopped.messages];
      const next = await askQuestion({ gateway, box, model }, 'And now?', {
        messages: [...history, { role: 'user', content: 'And now?' }],
      });
      expect(next.status).toBe('ok');
      expect(results(next)).toEqual(['42']);
    });
  });
});
