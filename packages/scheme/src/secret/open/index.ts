// Open queries, the side of key holder and device (README.md §9).

export { type QueryResponses, ResponseSecrets } from './decrypt.ts';
export {
  type DeviceKey,
  encryptPublicQuery,
  encryptPublicQueryFrom,
  encryptShortQuery,
  encryptShortQueryFrom,
  makeDeviceKey,
} from './encrypt.ts';
export { makeDeviceEvaluation, makeEvaluationKeys, makePublicKey } from './evaluation.ts';
export { type ReadQuery, readOpenQuery } from './read-query.ts';
