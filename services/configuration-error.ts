/** EX_CONFIG of sysexits.h: it informs a supervisor that a restart would not help. */
export const wrongConfigurationCode = 78;

/** An error that the operator has to fix; its message explains it in sentences. */
export class ConfigurationError extends Error {}

/** Prints a ConfigurationError and ends the process with code 78; rethrows any other error. */
export const giveUpIfWrong = (error: unknown): never => {
  if (!(error instanceof ConfigurationError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(wrongConfigurationCode);
};
