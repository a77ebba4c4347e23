import { type AuditEntry, auditPageSchema, auditQuerySchema } from '#contract';
import type { AuditRow } from '../../../store/tenants/audit.ts';
import type { Endpoints } from '../../endpoint.ts';
import type { AdminParts } from './parts.ts';

/** `/v1/admin/audit`. */
export const addAuditRoute = ({ add }: Endpoints, parts: { admin: AdminParts }): void => {
  add(
    {
      method: 'get',
      path: '/v1/admin/audit',
      scope: 'admin',
      summary: 'List changes of tenants and keys, the newest first',
      tag: 'Admin',
      query: auditQuerySchema,
      responses: { 200: { description: 'A page of the log.', schema: auditPageSchema } },
    },
    async ({ c, query }) => {
      const { items, nextCursor } = await parts.admin.audit.list(query);
      return c.json({ items: items.map(toEntry), nextCursor });
    },
  );
};

const toEntry = (row: AuditRow): AuditEntry => ({
  id: row.id,
  at: row.createdAt.toISOString(),
  actor: row.actor,
  action: row.action,
  tenant: row.tenantId,
  target: row.target,
  requestId: row.requestId,
  details: row.details,
});
