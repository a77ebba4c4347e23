import { plainText } from './text.ts';

/** A URL to fetch: http or https, without a user name and password. */
export const fetchUrlSchema = plainText()
  .max(8192, { abort: true })
  .superRefine((text, ctx) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const fault =
      url === undefined || !/^https?:$/.test(url.protocol)
        ? 'must be an http or https URL'
        : url.username || url.password
          ? 'must not have a user name or password; give them as a header'
          : undefined;
    if (fault) ctx.addIssue({ code: 'custom', message: fault });
  })
  // Spaces and non-ASCII names are stored in the form that goes over the wire.
  .overwrite((text) => (URL.canParse(text) ? new URL(text).href : text));
