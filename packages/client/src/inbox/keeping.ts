// What a collection loads when somebody uses its devices: most programs never do.

export { questions } from './keeper.ts';
export { addDevice, listDevices, revokeDevice } from './registry.ts';
