import { join } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const folder = import.meta.dirname;

/**
 * The page, and the document that draws its charts. They contain no inline scripts and styles, as their
 * Content-Security-Policies demand.
 */
export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 6000,
    rolldownOptions: { input: { index: join(folder, 'index.html'), chart: join(folder, 'chart.html') } },
  },
});
