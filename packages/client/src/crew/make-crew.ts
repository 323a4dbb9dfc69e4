// Starting a crew. Workers do not import this: bundlers would find a worker within the worker.

import { type Crew, InProcessCrypto, type KeyMaterial } from './crew.ts';

/** A crew on all cores, if the platform can. */
export async function makeCrew(material: KeyMaterial, threads?: number): Promise<Crew> {
  if (threads === 1) return new InProcessCrypto(material);
  const { startWorkers } = await import('#crew');
  return (await startWorkers(material, threads)) ?? new InProcessCrypto(material);
}
