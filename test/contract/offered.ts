const list = (text: string): string[] => text.split(',').filter((name) => name !== '');

/** Drivers that the set-up could prepare here; it lists by name what it could not. */
const drivers = list(process.env.CODEBOX_TEST_DRIVERS ?? 'docker,local');

/** Docker runtimes that the daemon of the tests knows. */
export const runtimes = list(process.env.CODEBOX_TEST_RUNTIMES ?? 'runc,runsc');

/** Whether tests of a driver run here. */
export const hasDriver = (name: 'docker' | 'local'): boolean => drivers.includes(name);
