import '@xterm/xterm/css/xterm.css';
import { FitAddon } from '@xterm/addon-fit';
import { Terminal as Screen } from '@xterm/xterm';
import { useEffect, useRef } from 'react';
import { z } from 'zod';
import { terminalNewsSchema } from '#contract';
import type { AgentClient } from '../../api/agent-client.ts';
import { kept } from '../../api/kept.ts';
import { faultText } from '../../state/fault.ts';
import type { Workspace } from '../../state/workspace.ts';

const [ready, exit, fault] = terminalNewsSchema.options;
const newsSchema = z.discriminatedUnion('type', [ready.extend({ terminal: z.string() }), exit, fault]);

export interface TerminalProps {
  client: AgentClient;
  workspace: Workspace;
  /** Called with the reason when it has ended. */
  onEnd: (text: string) => void;
}

/** Connects a screen to a shell until that ends; a shell that this tab used before is attached again. */
const connect = async (screen: Screen, { client, workspace }: TerminalProps, signal: AbortSignal): Promise<string> => {
  const chat = await workspace.ensureChat();
  const known = kept(`codebox-terminal-${chat}`);
  const size = () => ({ cols: screen.cols, rows: screen.rows });
  const open = (terminal: string | null) => client.terminals.open(chat, { terminal, ...size(), signal });
  const before = known.get();
  const socket = await open(before).catch((error: unknown) => {
    // It may have ended meanwhile.
    if (before === null) throw error;
    return open(null);
  });
  screen.onData((keys) => socket.send(new TextEncoder().encode(keys)));
  screen.onResize((now) => socket.send(JSON.stringify({ type: 'resize', ...now })));
  for await (const message of socket) {
    if (typeof message !== 'string') {
      screen.write(message);
      continue;
    }
    const news = newsSchema.parse(JSON.parse(message));
    if (news.type === 'ready') known.set(news.terminal);
    if (news.type === 'ready') screen.focus();
    if (news.type === 'error') return news.detail;
    if (news.type === 'exit') {
      known.set(null);
      return 'The shell has ended.';
    }
  }
  return 'The connection was closed.';
};

/** A terminal: its colours are dark in every theme, as its programs expect. */
export const Terminal = (props: TerminalProps) => {
  const place = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: one screen for as long as it is shown.
  useEffect(() => {
    if (place.current === null) return;
    const life = new AbortController();
    const screen = new Screen({
      fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace',
      fontSize: 13,
      cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches,
      scrollback: 5000,
      screenReaderMode: true,
      theme: { background: '#14141c', foreground: '#e6e6ef', cursor: '#a5b4fc' },
    });
    const fit = new FitAddon();
    screen.loadAddon(fit);
    screen.open(place.current);
    fit.fit();
    const watcher = new ResizeObserver(() => fit.fit());
    watcher.observe(place.current);
    connect(screen, props, life.signal).then(
      (text) => !life.signal.aborted && props.onEnd(text),
      (error: unknown) => !life.signal.aborted && props.onEnd(faultText(error)),
    );
    return () => {
      life.abort(new Error('left'));
      watcher.disconnect();
      screen.dispose();
    };
  }, []);
  return <section className="terminal" ref={place} aria-label="Terminal" />;
};
