const probes = new Set(['/healthz', '/readyz', '/metrics']);

/** Whether this is the path of a probe. Probes come every few seconds and are not logged while they succeed. */
export const isProbe = (path: string | undefined): boolean => path !== undefined && probes.has(path);
