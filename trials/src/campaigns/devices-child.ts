// The keeper of an open collection, or its owner, in a process of its own that kill-devices.ts
// kills. What was done is said on standard output, one line of JSON each.

import { connect, MasterSeed } from '@hers/client';
import { NonceFile } from '@hers/client/keeper';
import { DEVICES, ROTATE_EVERY } from './kill-devices.ts';

const [role, url, seed, file] = process.argv.slice(2);
const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);
const db = await connect(url!, { key: MasterSeed.from(Buffer.from(seed!, 'hex')), threads: 1, retryMs: 120_000 });
const faces = await db.collection('faces');
say({ open: role });

if (role === 'keeper') {
  const asked = faces.questions({
    memory: new NonceFile(file!),
    pollMs: 50,
    limit: 1,
    onEnrolled: ({ nonce, id }) => say({ enrolled: nonce, id }),
    onRefused: ({ nonce, reason }) => say({ refused: nonce, reason }),
  });
  for await (const { nonce, matches } of asked) say({ asked: nonce, id: matches[0]?.id });
} else {
  const isThere = (name: string, all: Awaited<ReturnType<typeof faces.devices>>) =>
    all.some((each) => each.name === name && !each.revoked);
  // One that was killed goes on anywhere.
  for (let i = Math.floor(Math.random() * ROTATE_EVERY); ; i++) {
    const name = DEVICES[i % DEVICES.length]!;
    const renew = isThere(name, await faces.devices());
    say({ changing: name });
    const bundle = await faces.addDevice(name, {
      renew,
      address: url!,
      ...(name.startsWith('own') ? { ownKey: true } : {}),
      ...(name.includes('kiosk') ? { enrol: { most: 1_000_000 } } : {}),
    });
    say({ bundle, name });
    if (i % 7 === 6) {
      const [first] = DEVICES;
      say({ changing: first });
      await faces.revokeDevice(first!).catch((error) => {
        if (error.code !== 'NOT_FOUND') throw error;
      });
      say({ revoked: first });
    }
    if (i % 5 === 4) await faces.optimize();
    if (i % ROTATE_EVERY === 0) {
      for (const each of DEVICES) say({ changing: each });
      await faces.rotateKey();
      say({ rotated: true });
    }
    // So that most questions are answered under the bundle that they were asked with.
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}
