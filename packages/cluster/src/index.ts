export { type Certified, certifiedBy, type NodeCertificate } from './certified.ts';
export { Coordinator, type CoordinatorOptions } from './coordinator.ts';
export type { Directory, Move, NodeInfo, PlacedCollection } from './directory.ts';
export type { ClusterCalls } from './fence.ts';
export { CLUSTER_FILES, type InitOptions, initCluster } from './init.ts';
export type { Ledger, LedgerEntry } from './ledger.ts';
export { NatsLedger, type NatsLedgerOptions, openNatsLedger } from './ledger-nats.ts';
export { ClusterNode, type NodeOptions } from './node.ts';
export type { ShardSearch, ShardService } from './shard.ts';
export { type ClusterOptions, type RunningNode, startNode } from './start.ts';
export {
  type ClusterStatus,
  type CollectionStatus,
  clusterStatus,
  type FolderStatus,
  folderStatus,
  type MoveStatus,
  type NodeStatus,
} from './status.ts';
export { HttpShards, serveShards } from './transport.ts';
