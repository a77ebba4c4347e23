import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { Readable } from 'node:stream';
import type { Context, Hono } from 'hono';
import type { Env } from './env.ts';

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  ico: 'image/x-icon',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  png: 'image/png',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
  wasm: 'application/wasm',
  webmanifest: 'application/manifest+json',
  woff2: 'font/woff2',
};

/** Displayed output of code is framed without an origin; only the page's own scripts run in the page. */
const policy = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "font-src 'self' data:",
  "connect-src 'self'",
  "frame-src 'self'",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * The document that shows output of code: only the page can embed it; it has no origin, runs scripts and loads nothing.
 */
const framePolicy = [
  'sandbox allow-scripts',
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  "style-src 'unsafe-inline'",
  'img-src data: blob:',
  'font-src data:',
  "frame-ancestors 'self'",
].join('; ');

/** The document that draws charts from data with the page's own code: it has no origin, and loads only that code. */
const chartPolicy = [
  'sandbox allow-scripts allow-downloads',
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  'img-src data: blob:',
  'font-src data:',
  "frame-ancestors 'self'",
].join('; ');

const policies: Record<string, string> = { 'frame.html': framePolicy, 'chart.html': chartPolicy };

const headers = {
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
};

/** A name with a content hash this long identifies its content. */
const isHashed = /[-.][\w-]{8,}\.\w+$/;
const packed = [
  { encoding: 'br', suffix: '.br' },
  { encoding: 'gzip', suffix: '.gz' },
];

/**
 * Serves the built page from a folder: `index.html` at `/`, hashed assets as immutable, compressed variants to clients
 * that accept them. Only files that existed at the start are served, so no path leads out of the folder.
 */
export const servePage = async (app: Hono<Env>, folder: string, greet: (c: Context<Env>) => void): Promise<void> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const names = new Set(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/')),
  );

  const send = (c: Context<Env>, name: string): Response => {
    c.set('route', '/page');
    const taken = (c.req.header('accept-encoding') ?? '').split(/[\s,;]+/);
    const better = packed.find(({ encoding, suffix }) => taken.includes(encoding) && names.has(name + suffix));
    const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    const caching = isHashed.test(name) && name !== 'index.html' ? 'public, max-age=31536000, immutable' : 'no-cache';
    const responseHeaders = {
      ...headers,
      'Content-Security-Policy': policies[name] ?? policy,
      // A document without an origin may load the page's code, which is public.
      ...(name.startsWith('assets/') && { 'Access-Control-Allow-Origin': '*' }),
      'Content-Type': type,
      'Cache-Control': caching,
      Vary: 'Accept-Encoding',
      ...(better && { 'Content-Encoding': better.encoding }),
    };
    if (c.req.method === 'HEAD') return c.body(null, 200, responseHeaders);
    const file = createReadStream(join(folder, name + (better?.suffix ?? '')));
    return c.body(Readable.toWeb(file) as ReadableStream, 200, responseHeaders);
  };

  for (const name of names) {
    if (packed.some(({ suffix }) => name.endsWith(suffix)) || name === 'index.html') continue;
    app.get(`/${name}`, (c) => send(c, name));
  }
  if (!names.has('index.html')) return;
  app.get('/', (c) => {
    greet(c);
    return send(c, 'index.html');
  });
};
