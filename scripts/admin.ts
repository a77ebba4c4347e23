import { CodeBoxError, createClient } from '#contract';
import { readLine } from './admin/arguments.ts';
import { commandOf, type Shown } from './admin/commands.ts';
import { toFields, toTable } from './admin/table.ts';
import { Misuse, usageText } from './admin/usage.ts';

// The operator's command line, a thin client of the admin API: `npm run admin -- tenants create acme`.

const show = (shown: Shown, isJson: boolean): string => {
  if ('message' in shown) return isJson ? '' : `${shown.message}\n`;
  if (isJson) return `${JSON.stringify('one' in shown ? shown.one : shown.many, null, 2)}\n`;
  return 'one' in shown ? toFields(shown.one) : toTable(shown.many, shown.columns);
};

const describe = (error: CodeBoxError): string => {
  const faults = error.errors.map(({ pointer, detail }) => `\n  ${pointer} ${detail}`).join('');
  return `${error.message}${faults}\n`;
};

const main = async (): Promise<number> => {
  const { positionals, options, isJson, wantsHelp } = readLine(process.argv.slice(2));
  if (wantsHelp || positionals.length === 0) {
    process.stdout.write(usageText);
    return wantsHelp ? 0 : 2;
  }
  const command = commandOf(positionals, options);
  const key = process.env.CODEBOX_ADMIN_KEY;
  if (!key) throw new Misuse('CODEBOX_ADMIN_KEY is not set. Set it to the admin key of the gateway.');
  const url = options.url ?? process.env.CODEBOX_URL ?? 'http://localhost:8080';
  const { admin } = createClient({ url, key, retries: 2 });
  process.stdout.write(show(await command(admin), isJson));
  return 0;
};

process.exitCode = await main().catch((error: unknown) => {
  if (error instanceof Misuse) {
    process.stderr.write(`${error.message}\nSee npm run admin -- --help\n`);
    return 2;
  }
  if (!(error instanceof CodeBoxError)) throw error;
  process.stderr.write(describe(error));
  return 1;
});
