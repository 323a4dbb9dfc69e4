// The methods by their names.

import { auto } from './auto.ts';
import { deepmds, deepmdsPlus, deepmdsPlusAuthors } from './deepmds.ts';
import type { Method } from './method.ts';
import { lda, pca } from './pca-lda.ts';
import { ranking } from './ranking.ts';

export const methods = {
  auto,
  ranking,
  pca,
  lda,
  deepmds,
  'deepmds++': deepmdsPlus,
  'deepmds++authors': deepmdsPlusAuthors,
};

export type MethodName = keyof typeof methods;
export type Settings<M extends MethodName> = (typeof methods)[M]['defaults'];

/** The same table for code that has a name and settings from outside. */
export const anyMethod = methods as unknown as Record<string, Method<object, number | null>>;
