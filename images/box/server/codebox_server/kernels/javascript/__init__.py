"""The JavaScript and TypeScript kernels: a Node process that lives as long as its variables."""
