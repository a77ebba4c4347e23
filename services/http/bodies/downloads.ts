/**
 * Headers for a file of a box: it is never shown in the origin of a service, but saved as `name`, and browsers must not
 * guess its type.
 */
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
