/** What this tab keeps until it is closed. */
export const kept = (name: string) => ({
  get: (): string | null => sessionStorage.getItem(name),
  set: (value: string | null): void => {
    if (value === null || value === '') sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  },
});

/** The CodeBox key, where the agent asks for one. */
export const keptKey = kept('codebox-key');

/** The reader's own key of a model; it goes with a question and nowhere else. */
export const keptModelKey = kept('codebox-model-key');
