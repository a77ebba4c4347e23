/** The page for a browser that opens a port on which nothing listens. */
export const closedPortPage = (sandbox: string, port: number): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Closed Port Error</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42em;margin:2em auto;padding:0 1em}</style></head>
<body><h1>Closed Port Error</h1><p>The sandbox ${sandbox} is running but nothing listens on port ${port}.
Start a server on this port, then open the page again.</p></body></html>
`;
