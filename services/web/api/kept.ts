/** Values that this tab keeps until it is closed. */
export const kept = (name: string) => ({
  get: (): string | null => sessionStorage.getItem(name),
  set: (value: string | null): void => {
    if (value === null || value === '') sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  },
});

/** Forgets all of them. */
export const forgetKept = (): void => {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith('codebox-')) sessionStorage.removeItem(name);
};

/** The CodeBox key, when the agent asks for one. */
export const keptKey = kept('codebox-key');

/** The reader's own key for the models of one provider; it is sent with questions to these models only. */
export const keptModelKey = (provider: string) => kept(`codebox-model-key ${provider}`);
