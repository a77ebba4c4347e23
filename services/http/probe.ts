const probes = new Set(['/healthz', '/readyz', '/metrics']);

/** Whether this is the path of a probe. They come every few seconds, and say nothing while all is well. */
export const isProbe = (path: string | undefined): boolean => path !== undefined && probes.has(path);
