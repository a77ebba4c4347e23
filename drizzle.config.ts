import { defineConfig } from 'drizzle-kit';

// drizzle-kit reads the default export.
export default defineConfig({
  dialect: 'postgresql',
  schema: './services/gateway/store/schema.ts',
  out: './services/gateway/store/migrations',
});
