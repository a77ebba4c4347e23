/** The name servers of boxes with the network `internet` unless others are configured: boxes cannot reach private ones. */
export const publicNameServers: readonly string[] = ['1.1.1.1', '8.8.8.8'];
