/** The text of `admin --help`. */
export const usageText = `Manages the tenants of a CodeBox deployment through its admin API.

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
  --limit <n>    the maximum number of items of a list (default: 100)
  --url <url>    the gateway or its admin port (default: CODEBOX_URL, or http://localhost:8080)

CODEBOX_ADMIN_KEY holds the admin key. Exit codes: 0 on success, 1 if the gateway refuses the request, 2 for a usage error.
`;

/** A usage error; the command exits with 2. */
export class Misuse extends Error {}
