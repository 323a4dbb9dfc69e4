// Open queries, the side of key holder and device (README.md §10).

export { type QueryResponses, ResponseSecrets } from './decrypt.ts';
export { type DeviceKey, encryptPublicQuery, encryptShortQuery, makeDeviceKey } from './encrypt.ts';
export { makeEvaluationKeys, makePublicKey } from './evaluation.ts';
