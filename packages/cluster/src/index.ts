export { certifiedBy, type NodeCertificate } from './certified.ts';
export { CLUSTER_FILES, type InitOptions, initCluster } from './init.ts';
export type { Ledger } from './ledger.ts';
export { startNode } from './start.ts';
export { type ClusterStatus, type CollectionStatus, clusterStatus, folderStatus, type NodeStatus } from './status.ts';
export { HttpShards } from './transport.ts';
