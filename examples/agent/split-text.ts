const fence = /^```\w*$/;

/** Splits Markdown into pieces of at most `limit` characters, at line ends if possible. Split code blocks are closed and reopened. */
export const splitText = (text: string, limit: number): string[] => {
  const pieces: string[] = [];
  let piece = '';
  let open = '';
  // Leaves room for the fence that closes a block which continues in the next piece.
  const room = limit - 8;
  const flush = () => {
    if (piece.trim() !== '') pieces.push(open ? `${piece}\`\`\`` : piece);
    piece = open && `${open}\n`;
  };
  for (const whole of text.split('\n')) {
    let line = whole;
    if (piece.length + line.length + 1 > room) flush();
    while (piece.length + line.length + 1 > room) {
      const fits = room - piece.length - 1;
      piece += `${line.slice(0, fits)}\n`;
      line = line.slice(fits);
      flush();
    }
    piece += `${line}\n`;
    if (fence.test(whole.trim())) open = open ? '' : whole.trim();
  }
  if (piece.trim() !== '' && piece !== `${open}\n`) pieces.push(piece);
  return pieces.map((each) => each.trimEnd());
};
