// The methods by their names.

import { type AutoSettings, auto } from './auto.ts';
import { type DeepMdsSettings, deepmds, deepmdsPlus, deepmdsPlusAuthors } from './deepmds.ts';
import type { Method } from './method.ts';
import { type LdaSettings, lda, pca } from './pca-lda.ts';
import { type RankingSettings, ranking } from './ranking.ts';

/** The methods, by name. */
export const methods: {
  auto: Method<AutoSettings, number | null>;
  ranking: Method<RankingSettings, number>;
  pca: Method<Record<never, never>, number>;
  lda: Method<LdaSettings, number>;
  deepmds: Method<DeepMdsSettings, number>;
  'deepmds++': Method<DeepMdsSettings, number>;
  'deepmds++authors': Method<DeepMdsSettings, number>;
} = {
  auto,
  ranking,
  pca,
  lda,
  deepmds,
  'deepmds++': deepmdsPlus,
  'deepmds++authors': deepmdsPlusAuthors,
};

/** The methods that there are. */
export type MethodName = keyof typeof methods;
/** What a method can be told. */
export type Settings<M extends MethodName> = (typeof methods)[M]['defaults'];

/** The same table for code that has a name and settings from outside. */
export const anyMethod = methods as unknown as Record<string, Method<object, number | null>>;
