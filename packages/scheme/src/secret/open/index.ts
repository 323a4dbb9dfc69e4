// Open queries, the side of key holder and device (README.md §10).

export { ResponseSecrets } from './decrypt.ts';
export { encryptOpenBlock, encryptPublicQuery, encryptShortQuery, makeDeviceKey } from './encrypt.ts';
export { makeEvaluationKeys, makePublicKey } from './evaluation.ts';
