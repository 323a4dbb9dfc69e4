// Open queries, the side of key holder and device (README.md §9).

export { type QueryResponses, type ReadQuery, ResponseSecrets, readOpenQuery } from './decrypt.ts';
export {
  type DeviceKey,
  encryptPublicQuery,
  encryptPublicQueryFrom,
  encryptShortQuery,
  encryptShortQueryFrom,
  makeDeviceKey,
} from './encrypt.ts';
export { makeDeviceEvaluation, makeEvaluationKeys, makePublicKey } from './evaluation.ts';
