// Calls to several replicas at once, of which a number must succeed.

import { HersError } from '@hers/service';
import { isCode } from './arguments.ts';
import type { Peers } from './peers.ts';

export interface Answer<T> {
  readonly node: string;
  readonly value: T;
}

/**
 * How long the others are waited for when enough have answered: a replica that is only a little
 * later must not miss what comes next, or it would have to be repaired.
 */
const PATIENCE_MS = 250;

/**
 * At least `needed` answers; with a `suspicion`, those of all nodes that answer in time; or as many
 * as suffice. The other calls go on, and nobody waits for them. If too many fail: STALE where one
 * says so; NOT_FOUND where so many do that no majority has it; otherwise, if none succeeded, the
 * error of a replica that would say the same next time; otherwise UNAVAILABLE.
 */
export function quorum<T>(
  nodes: readonly string[],
  needed: number,
  call: (node: string) => Promise<T>,
  suspicion?: Pick<Peers, 'suspect' | 'isSuspect'>,
  suffices?: (answers: readonly Answer<T>[]) => boolean,
): Promise<Answer<T>[]> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const answers: Answer<T>[] = [];
    const failures: { readonly node: string; readonly error: unknown }[] = [];
    const pending = new Set(nodes);
    let timer: NodeJS.Timeout | undefined;
    const end = () => {
      clearTimeout(timer);
      resolve(answers.slice());
    };
    const check = () => {
      if (nodes.length - failures.length < needed) {
        clearTimeout(timer);
        reject(reasonOf(failures, nodes.length, answers.length > 0));
      } else if (answers.length >= needed) {
        const waits = suffices
          ? pending.size > 0 && !suffices(answers)
          : suspicion && [...pending].some((node) => !suspicion.isSuspect(node));
        if (!waits) end();
        else
          timer ??= setTimeout(
            () => {
              for (const node of pending) suspicion?.suspect(node);
              end();
            },
            Math.max(PATIENCE_MS, performance.now() - began),
          );
      }
    };
    check();
    const attempt = async (node: string) => call(node);
    for (const node of nodes)
      attempt(node).then(
        (value) => {
          pending.delete(node);
          answers.push({ node, value });
          check();
        },
        (error) => {
          pending.delete(node);
          if (isGone(error)) suspicion?.suspect(node);
          failures.push({ node, error });
          check();
        },
      );
  });
}

/** Whether a node does not answer at all. */
export function isGone(error: unknown): boolean {
  return isCode(error, 'UNAVAILABLE', 'TIMED_OUT', 'CLOSED');
}

/** Whether it comes from a node that is gone or busy, and not from what it was asked. */
export function isPassing(error: unknown): boolean {
  if (!(error instanceof HersError)) return false;
  return ['UNAVAILABLE', 'TIMED_OUT', 'CLOSED', 'STORAGE', 'DAMAGED', 'INTERNAL'].includes(error.code);
}

function reasonOf(
  failures: readonly { readonly node: string; readonly error: unknown }[],
  asked: number,
  some: boolean,
): unknown {
  const stale = failures.find(({ error }) => isCode(error, 'STALE'));
  if (stale) return stale.error;
  const missing = missingEverywhere(
    failures.map(({ error }) => error),
    asked,
  );
  if (missing) return missing;
  const certain = failures.find(({ error }) => !isPassing(error) && !isCode(error, 'NOT_FOUND'));
  if (certain && !some) return certain.error;
  const nodes = failures.map(({ node, error }) => `${node} (${(error as Error).message})`).join(', ');
  return new HersError('UNAVAILABLE', `too few replicas answer: not ${nodes}; try again`);
}

/**
 * NOT_FOUND, if so many replicas say so that there is no majority that has it. A few may have lost
 * or missed what was acknowledged.
 */
export function missingEverywhere(errors: readonly unknown[], replicas: number): unknown {
  const missing = errors.filter((error) => isCode(error, 'NOT_FOUND'));
  return 2 * missing.length >= replicas ? missing[0] : undefined;
}

export async function firstOf<T>(nodes: readonly string[], call: (node: string) => Promise<T>): Promise<T> {
  const failures: { readonly node: string; readonly error: unknown }[] = [];
  for (const node of nodes)
    try {
      return await call(node);
    } catch (error) {
      failures.push({ node, error });
    }
  throw reasonOf(failures, nodes.length, false);
}

/**
 * The items of the first node that has them; what one that fails in the middle leaves comes from
 * the next. `call` is given how many there were already.
 */
export async function* itemsOfFirst<T>(
  nodes: readonly string[],
  call: (node: string, delivered: number) => AsyncIterable<T>,
): AsyncGenerator<T> {
  const failures: { readonly node: string; readonly error: unknown }[] = [];
  let delivered = 0;
  for (const node of nodes)
    try {
      for await (const item of call(node, delivered)) {
        delivered++;
        yield item;
      }
      return;
    } catch (error) {
      failures.push({ node, error });
    }
  throw reasonOf(failures, nodes.length, false);
}
