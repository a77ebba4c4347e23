import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, type GatewayProcess, startGateways } from '../api/harness.ts';
import { connect } from '../api/websocket.ts';
import { briefOf, executeRequest, isReply, isStream, parentOf, untilGo } from './jupyter-clients.ts';

describe.each(anyDriver)('two gateways with the Jupyter dialect on the %s driver', (driver) => {
  let [doomed, other]: GatewayProcess[] = [];
  beforeAll(async () => {
    const env = { CODEBOX_DIALECTS: 'jupyter', CODEBOX_SWEEP_SECONDS: '1' };
    [other, doomed] = (await startGateways(driver, 2, env)) as [GatewayProcess, GatewayProcess];
  });
  afterAll(() => other?.dispose());

  test('cells that wait at a gateway are followed by a client that has connected to the other one', async () => {
    if (!doomed || !other) throw new Error('no gateways');
    const { body: kernel } = await doomed.post<{ id: string }>('/jupyter/ann/api/kernels', {});
    const path = `/jupyter/ann/api/kernels/${kernel.id}/channels?session_id=hers&token=${doomed.key}`;
    const first = await connect(doomed, path);
    first.sendJson(executeRequest('one', `print("a\\n", end="", flush=True)\n${untilGo}`));
    for (const name of ['two', 'three']) first.sendJson(executeRequest(name, `print("${name}")`));
    await first.json(isStream);
    first.ws.close();
    const second = await connect(other, path);
    await second.json(isStream);
    second.sendJson(executeRequest('four', 'print("four")'));
    const go = { method: 'PUT', body: '{"type": "file", "format": "text", "content": ""}' };
    await other.call('/jupyter/ann/api/contents/go', go);
    await second.json((message) => isReply(message) && parentOf(message) === 'four');
    const seen = second.messages.flatMap((message) => ('json' in message ? [message.json] : []));
    const printed = seen.filter(isStream).map(({ content }) => (content as { text: string }).text);
    expect(printed.join('')).toBe('a\ntwo\nthree\nfour\n');
    expect(seen.filter(isReply).map(parentOf)).toEqual(['one', 'two', 'three', 'four']);
    second.ws.close();
  });

  test('a cell goes on at another gateway when its own is killed', async () => {
    if (!doomed || !other) throw new Error('no gateways');
    const { body: kernel } = await doomed.post<{ id: string }>('/jupyter/bob/api/kernels', {});
    const path = `/jupyter/bob/api/kernels/${kernel.id}/channels?session_id=mine&token=${doomed.key}`;
    const first = await connect(doomed, path);
    first.sendJson(executeRequest('one', `print("a\\n", end="", flush=True)\n${untilGo}print("b")`));
    await first.json(isStream);
    await doomed.kill('SIGKILL');
    const second = await connect(other, path);
    await second.json(isStream);
    const go = { method: 'PUT', body: '{"type": "file", "format": "text", "content": ""}' };
    await other.call('/jupyter/bob/api/contents/go', go);
    await second.json(isReply);
    expect(briefOf(second)).toEqual(['clear_output', 'status', 'execute_input', 'a\n', 'b\n', 'execute_reply']);
    second.sendJson(executeRequest('two', '6 * 7'));
    const result = await second.json(({ msg_type }) => msg_type === 'execute_result');
    expect(result).toMatchObject({ parent_header: { msg_id: 'two' }, content: { data: { 'text/plain': '42' } } });
    second.ws.close();
  });
});
