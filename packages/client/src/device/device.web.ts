// A browser has no device that stores leave responses on.

import type { DeviceAddon } from './device.ts';

export function deviceAddon(): DeviceAddon | undefined {
  return undefined;
}
