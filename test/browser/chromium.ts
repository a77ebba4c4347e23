import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** The headless build of Chromium takes a third less CPU time. Where it is not installed, the whole browser serves. */
const [shell, whole] = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

/** Flags that let Chromium run as root, headless, and without network requests of its own. */
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Unlike localhost, this host is not trusted without HTTPS.
  '--host-resolver-rules=MAP codebox.test 127.0.0.1',
];

/** Launches the Chromium of the system, headless. The caller closes it. */
export const launchChromium = (): Promise<Browser> =>
  chromium.launch({ executablePath: existsSync(shell) ? shell : whole, args: flags });
