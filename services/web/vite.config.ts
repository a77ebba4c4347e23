import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The page. No script and no style stands in the document, as its Content-Security-Policy asks. */
export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1000,
  },
});
