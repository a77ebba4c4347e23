import { join } from 'node:path';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const folder = import.meta.dirname;

/**
 * The page, and the document in which it draws charts. No script and no style stands in them, as their Content-Security-Policies
 * ask.
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
