// The devices of a collection: a sealed list in its manifest, so that a store cannot add one, bring
// a revoked one back, or learn how they are called.

import { makeDeviceKey, makePublicKey } from '@hers/scheme/secret/open';
import { HersError, type OptionNames, refuseUnknown } from '@hers/service';
import { hex } from '../bytes.ts';
import { invalid } from '../fields/field.ts';
import type { ManifestDevice } from '../formats/manifest.ts';
import { Draft, evaluationOf } from '../session/draft.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { encodeBundle } from './bundle.ts';
import { SIGNING_KEY_BYTES, sealingKeyOf, verifyingKey } from './envelopes.ts';

/** A device as the keeper knows it. */
export interface DeviceInfo {
  /** By which the store knows it. */
  readonly number: number;
  /** By which the keeper knows it. */
  readonly name: string;
  /** When its bundle was made. */
  readonly added: Date;
  /** When it was revoked, if it was. */
  readonly revoked?: Date;
  /** Whether it has a key of its own, and asks with a kilobyte. */
  readonly hasOwnKey: boolean;
  /** How many records it may enrol, and into which partition, if it may. */
  readonly enrol?: { readonly most: number; readonly partition?: string };
}

/** What a device may do, and what goes into its bundle. */
export interface AddDeviceOptions {
  /** How many records it may enrol, and into which partition; none by default. */
  readonly enrol?: { readonly most: number; readonly partition?: string };
  /** The address of the server, or those of several, for the bundle. */
  readonly address?: string | readonly string[];
  /**
   * The device's token, for the bundle, once its number is known: `new
   * TokenStore(…).create({ scope: 'device', collection, device })` makes one.
   */
  readonly token?: (device: number) => Promise<string>;
  /**
   * Gives it a key of its own, so that it asks with a kilobyte (at 128 dimensions) instead of 29;
   * false by default, and for a device that is renewed as it was. Whoever steals the bundle of such
   * a device can read what it asked before, with the help of the store; with the public key nobody
   * can.
   */
  readonly ownKey?: boolean;
  /**
   * Makes a new bundle, with the present key, for a device that there is: after the key was
   * rotated. The bundle before it is worth nothing from then on.
   */
  readonly renew?: boolean;
}

const ADD_OPTIONS: OptionNames<AddDeviceOptions> = {
  enrol: true,
  address: true,
  token: true,
  ownKey: true,
  renew: true,
};
const NAME = /^[^\p{C}\p{Z}]{1,64}$/u;
/** A store is told the numbers of all that were revoked. */
const MAX_DEVICES = 100_000;

function infoOf({ number, name, added, revoked, enrol, own }: ManifestDevice): DeviceInfo {
  return {
    number,
    name,
    added: new Date(added),
    hasOwnKey: own !== undefined,
    ...(revoked === undefined ? {} : { revoked: new Date(revoked) }),
    ...(enrol ? { enrol } : {}),
  };
}

/** Those that may ask. */
const present = (devices: readonly ManifestDevice[], name: string) =>
  devices.find((each) => each.name === name && each.revoked === undefined);

function checkOpen(session: CollectionSession, what: string): void {
  session.checkWhole(what);
  if (session.keyring.plan.profile !== 'open')
    throw invalid(
      `${what} needs a collection of the profile open: under others, whoever makes a query could open the gallery`,
    );
}

function checkEnrol(view: View, enrol: AddDeviceOptions['enrol']): void {
  if (enrol === undefined) return;
  refuseUnknown(enrol, { most: true, partition: true }, 'what a device may enrol');
  if (!(Number.isSafeInteger(enrol.most) && enrol.most >= 1))
    throw invalid('how many records a device may enrol is a whole number from 1');
  const { partitionBy } = view.manifest;
  if ((enrol.partition === undefined) !== (partitionBy === undefined))
    throw invalid(
      partitionBy === undefined
        ? 'this collection has no partitions to enrol into'
        : `a device enrols into one partition: say which value of ${partitionBy} that is`,
    );
}

export async function addDevice(
  session: CollectionSession,
  name: string,
  options: AddDeviceOptions = {},
): Promise<string> {
  refuseUnknown(options, ADD_OPTIONS, 'a device');
  checkOpen(session, 'a device');
  if (typeof name !== 'string' || !NAME.test(name))
    throw invalid('the name of a device has 1 to 64 letters, digits or signs, and no spaces');
  const { enrol, address, token, ownKey, renew = false } = options;
  const signingKey = crypto.getRandomValues(new Uint8Array(SIGNING_KEY_BYTES));
  const key = hex(verifyingKey(signingKey));
  await session.refresh();
  const { device, view } = await session.write(async (view) => {
    checkEnrol(view, enrol);
    const devices = view.manifest.devices ?? [];
    const known = present(devices, name);
    if (known && !renew)
      throw new HersError('ALREADY_EXISTS', `there is a device ${name} already; revoke it, or renew it`);
    if (!known && renew) throw noDevice(name);
    if (devices.length >= MAX_DEVICES)
      throw new HersError('TOO_LARGE', `a collection has ${MAX_DEVICES} devices at most, revoked ones included`);
    if (ownKey === false && known?.own)
      throw invalid(`${name} has a key of its own; to take it away, revoke it and add it again`);
    const allowed = enrol ?? known?.enrol;
    const { space } = view;
    // No secret serves two bundles: who has seen the old one could read what is asked with the new.
    const own = (ownKey ?? known?.own !== undefined) && {
      secret: 1 + devices.reduce((most, each) => Math.max(most, each.own?.secret ?? 0), 0),
      keyId: hex(space.key().keyId),
    };
    const made: ManifestDevice = {
      number: known?.number ?? devices.length + 1,
      name,
      key,
      added: Date.now(),
      ...(allowed ? { enrol: allowed } : {}),
      ...(own ? { own } : {}),
    };
    const draft = new Draft(view);
    if (known?.own) draft.dropDeviceKeys(known.own.secret);
    draft.devices = known ? devices.map((each) => (each === known ? made : each)) : [...devices, made];
    // A collection whose key was rotated while it was empty has none yet; then this device's are
    // made with them.
    await session.evaluate(draft, space);
    if (own && !evaluationOf(draft, space)?.devices?.[own.secret])
      await session.evaluateDevice(draft, space, own.secret);
    return { draft, result: { device: made, view } };
  });
  const { keyring } = session;
  const { signing, sealing } = keyring.keeperKeys();
  const { space } = view;
  const collectionKey = space.key();
  const deviceKey = device.own && makeDeviceKey(collectionKey, device.own.secret);
  try {
    const { dimension, metric, normBound, queryNormBound, parameters, allowInsecure } = keyring.descriptor.request;
    const { compression } = space;
    const secret = await token?.(device.number);
    return encodeBundle(
      {
        name,
        number: device.number,
        collection: session.name,
        ...(address === undefined ? {} : { address }),
        ...(secret === undefined ? {} : { token: secret }),
        signingKey,
        ...(deviceKey ? { own: { secret: deviceKey.number, seed: deviceKey.seed } } : {}),
        keeper: verifyingKey(signing),
        keys: {
          collection: keyring.id,
          epoch: space.epoch,
          generation: 0,
          keyId: collectionKey.keyId,
          dimension,
          request: {
            dimension: space.plan.dimension,
            ...(metric === undefined ? {} : { metric }),
            ...(normBound === undefined ? {} : { normBound }),
            ...(queryNormBound === undefined ? {} : { queryNormBound }),
            ...(parameters === undefined ? {} : { parameters }),
            ...(allowInsecure === undefined ? {} : { allowInsecure }),
          },
          ...(compression ? { compressor: { digest: compression.digest, method: compression.compressor.method } } : {}),
          publicKey: makePublicKey(collectionKey),
          sealingKey: sealingKeyOf(sealing),
        },
      },
      signing,
    );
  } finally {
    signing.fill(0);
    sealing.fill(0);
    signingKey.fill(0);
    deviceKey?.seed.fill(0);
  }
}

export async function listDevices(session: CollectionSession): Promise<DeviceInfo[]> {
  const { manifest } = await session.refresh();
  return (manifest.devices ?? []).map(infoOf);
}

/** Revokes a device: the keeper ignores it from the next manifest on, the store from now on. */
export async function revokeDevice(session: CollectionSession, name: string): Promise<void> {
  checkOpen(session, 'revoking a device');
  await session.refresh();
  const devices = await session.write(async (view) => {
    const devices = view.manifest.devices ?? [];
    const known = present(devices, name);
    // The store may not have heard of it when it was revoked before.
    if (!known && devices.some((each) => each.name === name)) return { result: devices };
    if (!known) throw noDevice(name);
    const draft = new Draft(view);
    draft.devices = devices.map((each) => (each === known ? { ...each, revoked: Date.now() } : each));
    if (known.own) draft.dropDeviceKeys(known.own.secret);
    return { draft, result: draft.devices };
  });
  await session.service.refuseDevices(session.name, revokedIn(devices));
}

export function revokedIn(devices: readonly ManifestDevice[]): number[] {
  return devices.filter(({ revoked }) => revoked !== undefined).map(({ number }) => number);
}

function noDevice(name: string): HersError {
  return new HersError(
    'NOT_FOUND',
    `there is no device ${JSON.stringify(name)}; hers devices list shows those there are`,
  );
}
