const list = (text: string): string[] => text.split(',').filter((name) => name !== '');

/** The drivers that the test set-up could prepare on this machine. */
const drivers = list(process.env.CODEBOX_TEST_DRIVERS ?? 'docker,local');

/** The Docker runtimes that the daemon of the tests has. */
export const runtimes = list(process.env.CODEBOX_TEST_RUNTIMES ?? 'runc,runsc');

/** Whether the tests of a driver run on this machine. */
export const hasDriver = (name: 'docker' | 'local'): boolean => drivers.includes(name);
