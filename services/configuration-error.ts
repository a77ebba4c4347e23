/** EX_CONFIG of sysexits.h: by it a supervisor knows that trying again is of no use. */
export const wrongConfigurationCode = 78;

/** What whoever runs the process has to change; its message says what, in sentences. */
export class ConfigurationError extends Error {}

/** Ends the process with the sentences of a ConfigurationError, and the code 78; throws whatever else it is given. */
export const giveUpIfWrong = (error: unknown): never => {
  if (!(error instanceof ConfigurationError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(wrongConfigurationCode);
};
