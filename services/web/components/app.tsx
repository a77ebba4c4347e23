import { useEffect, useMemo, useState } from 'react';
import { createAgentClient } from '../api/agent-client.ts';
import { forgetKept, keptKey } from '../api/kept.ts';
import { createConnection } from '../state/connection.ts';
import { currentRoute, replaceRoute } from '../state/route.ts';
import { createSession } from '../state/session.ts';
import { useStore } from '../state/store.ts';
import { Login } from './login.tsx';
import { Shell } from './shell.tsx';

/** The whole page; it asks for a key when the agent needs one. */
export const App = () => {
  const [key, setKey] = useState(keptKey.get);
  const [connection] = useState(createConnection);
  const { client, session } = useMemo(() => {
    const client = createAgentClient(key, connection.fetch);
    const onCreated = (chat: string) => replaceRoute({ ...currentRoute(), chat });
    return { client, session: createSession({ client, connection, onCreated }) };
  }, [key, connection]);
  useEffect(() => void session.open(), [session]);
  const { phase, fault } = useStore(session.store);

  const enter = (next: string | null) => {
    session.close();
    // The next person at this tab finds neither keys nor code of the one who leaves.
    if (next === null) forgetKept();
    keptKey.set(next);
    setKey(next);
  };
  if (phase === 'locked') return <Login wasRefused={key !== null} onEnter={enter} />;
  if (phase === 'failed')
    return (
      <main className="centered">
        <h1>CodeBox is not there</h1>
        <p role="alert">{fault}</p>
        <button type="button" className="button" onClick={() => void session.open()}>
          Try again
        </button>
      </main>
    );
  return <Shell client={client} session={session} onLeave={key === null ? null : () => enter(null)} />;
};
