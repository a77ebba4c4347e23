const { CODEBOX_URL: url, CODEBOX_API_KEY: key } = process.env;
const call = async (method, path, body) => {
  const response = await fetch(`${url}/v1/boxes${path}`, {
    method,
    headers: { Authorization: `Bearer ${key}` },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(90_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} returned ${response.status}: ${text}`);
  return text && JSON.parse(text);
};

const { id } = await call('POST', '', {});
try {
  const { text } = await call('POST', `/${id}/executions`, { code: '1+1' });
  if (text !== '2') throw new Error(`1+1 is ${text}`);
  process.stdout.write('1+1 is 2 in a box\n');
} finally {
  await call('DELETE', `/${id}`);
}
