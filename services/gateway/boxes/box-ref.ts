/** Names a box: an id means something only together with the tenant, and the box of another tenant is not there. */
export interface BoxRef {
  tenant: string;
  box: string;
}
