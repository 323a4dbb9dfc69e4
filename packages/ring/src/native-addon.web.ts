// There is no native code in a browser.

import type { NativeAddon } from './native.ts';

export function openAddon(): NativeAddon | undefined {
  return undefined;
}

export function askedFor(): string | undefined {
  return undefined;
}

export function warn(_message: string): void {}
