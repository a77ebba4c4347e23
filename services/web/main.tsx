import { createRoot } from 'react-dom/client';
import { App } from './components/app.tsx';
import { applyTheme } from './state/theme.ts';
import './styles/base.css';
import './styles/sidebar.css';
import './styles/dialog.css';
import './styles/files.css';
import './styles/layout.css';
import './styles/markdown.css';
import './styles/composer.css';
import './styles/chat.css';
import './styles/output.css';
import './styles/notebook.css';

applyTheme();
const root = document.getElementById('root');
if (root === null) throw new Error('The document has no root.');
createRoot(root).render(<App />);
