/** What `admin --help` says. */
export const usageText = `Manages the tenants of a CodeBox deployment, through its admin API.

  npm run admin -- tenants list [--state active|suspended|deleted]
  npm run admin -- tenants create <name> [quotas]
  npm run admin -- tenants show|suspend|resume|delete <tenant>
  npm run admin -- tenants update <tenant> [--name <name>] [quotas]
  npm run admin -- tenants usage <tenant> [--from <day>] [--to <day>] [--user <user>]
  npm run admin -- keys list [--tenant <tenant>]
  npm run admin -- keys create --tenant <tenant> --name <name> [--scopes run,files] [--expires 90d]
  npm run admin -- keys show|revoke <key>
  npm run admin -- keys rotate <key> [--overlap 1h] [--expires 90d]
  npm run admin -- audit [--tenant <tenant>]

Quotas, each a number or "none":
  --boxes  --concurrent-executions  --cpu-seconds-per-day  --storage-mb  --requests-per-minute

Everywhere:
  --json         JSON instead of a table
  --limit <n>    at most so many lines of a list (100)
  --url <url>    the gateway, or its admin port; default: CODEBOX_URL, or http://localhost:8080

The key is taken from CODEBOX_ADMIN_KEY. Ends with 0, with 1 when it was refused, with 2 when it was not understood.
`;

/** What was typed is not a command; ends with 2. */
export class Misuse extends Error {}
