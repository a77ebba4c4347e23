/** A file of a box is never shown in the origin of a service: it is saved as `name`, and no type is guessed. */
export const downloadHeaders = (name: string, type = 'application/octet-stream'): Record<string, string> => {
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\]/g, '_');
  const encoded = encodeURIComponent(name).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`);
  return {
    'content-type': type,
    'content-disposition': `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`,
    'x-content-type-options': 'nosniff',
    'content-security-policy': 'sandbox',
  };
};
