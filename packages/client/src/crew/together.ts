// Responses decrypted and ranked by native code on threads of its own, many in one call. A worker
// would do the same work, but the messages to it and back take longer than that.

import { type CollectionKey, canRank, QuerySecret, rankTogether } from '@hers/scheme/secret';
import { type Candidate, floorOf } from '../search/ranking.ts';
import { type Decryption, type DecryptTask, type KeyMaterial, keyFrom, type RankOptions } from './crew.ts';

export class RankedTogether {
  readonly #material: KeyMaterial;
  #key: CollectionKey | undefined;
  #isClosed = false;

  constructor(material: KeyMaterial) {
    this.#material = material;
  }

  /**
   * The same as `rankResponses`, of responses that lie in one piece of memory; or nothing, where
   * that has to be asked: for what native code does not do, and for the words of an error.
   */
  async rank(
    secret: Decryption,
    tasks: readonly DecryptTask[],
    { limit, order, threshold, query }: RankOptions,
  ): Promise<Candidate[] | undefined> {
    const memory = tasks[0]?.response.buffer;
    if (this.#isClosed || !(secret instanceof QuerySecret) || !(memory instanceof ArrayBuffer)) return undefined;
    if (tasks.some(({ groups, sums }) => groups || sums)) return undefined;
    this.#key ??= keyFrom(this.#material);
    if (!canRank(this.#key)) return undefined;
    const floor = floorOf(order === 'descending' ? 1 : -1, threshold);
    const best = await rankTogether(this.#key, secret, memory, tasks, { limit, floor, query });
    return best?.map(({ task, slot, score }) => ({ block: tasks[task].block, slot, score }));
  }

  close(): void {
    this.#isClosed = true;
    this.#key?.wipe();
    this.#key = undefined;
  }
}
