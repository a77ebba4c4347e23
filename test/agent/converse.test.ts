import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import type { LanguageModel } from '../../services/agent/models/model.ts';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { type ModelServer, runs, startModelServer, wires } from './model-server.ts';
import { ask, modelAt, results } from './talking.ts';

describe.each(anyDriver)('an answer on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let server: ModelServer;
  let box: Box;
  beforeAll(async () => {
    [gateway, server] = await Promise.all([startGateway(driver), startModelServer()]);
    box = await gateway.createBox();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await gateway?.dispose();
  });

  describe.each(wires)('over the wire of %s', (wire) => {
    let model: LanguageModel;
    beforeAll(() => {
      model = modelAt(server, wire);
    });

    test('a plot is drawn from a file of the reader, and the reader gets it', async () => {
      await gateway.client.files.write(box.id, 'sales.csv', 'year,sales\n2023,5\n2024,7\n');
      const code = `import pandas as pd, matplotlib.pyplot as plt
df = pd.read_csv('sales.csv')
df.plot(x='year', y='sales'); plt.savefig('${wire}.png'); plt.show()
print(df.sales.sum())`;
      server.say(runs(code, 'python', 'I look.'), { text: 'Sales were 12 in all.' });
      const answer = await ask({ gateway, box, model }, 'Plot the sales.');
      expect(answer).toMatchObject({ status: 'ok', rounds: 2, error: null });
      expect(answer.text).toBe('I look.Sales were 12 in all.');
      const [result] = results(answer);
      expect(result).toContain('12');
      expect(result).toContain('[1 figure was shown to the reader.]');
      expect(result).toContain(`[Files made: ${wire}.png]`);
      const pictures = answer.events.filter(
        (event) => event.type === 'output' && event.event.type === 'display' && 'image/png' in event.event.mime,
      );
      expect(pictures.length).toBe(1);
      expect(answer.messages.map(({ role }) => role)).toEqual(['assistant', 'tool', 'assistant']);
      expect(answer.tokens.output).toBeGreaterThan(0);
    });
  });
});
