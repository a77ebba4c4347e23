/** Names a box: an id means something only together with the tenant, and the box of another tenant is not there. */
export interface BoxRef {
  tenant: string;
  box: string;
}

/** Names the box of a row. */
export const refOf = ({ tenantId, id }: { tenantId: string; id: string }): BoxRef => ({ tenant: tenantId, box: id });

/** Names the box of what belongs to one. */
export const boxOf = ({ tenantId, boxId }: { tenantId: string; boxId: string }): BoxRef => ({
  tenant: tenantId,
  box: boxId,
});
