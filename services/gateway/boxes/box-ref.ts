/** Identifies a box. Lookups by id always include the tenant, so the box of another tenant is not found. */
export interface BoxRef {
  tenant: string;
  box: string;
}

/** Returns the reference to the box of a row. */
export const refOf = ({ tenantId, id }: { tenantId: string; id: string }): BoxRef => ({ tenant: tenantId, box: id });

/** Returns the reference to the box that a row belongs to. */
export const boxOf = ({ tenantId, boxId }: { tenantId: string; boxId: string }): BoxRef => ({
  tenant: tenantId,
  box: boxId,
});
