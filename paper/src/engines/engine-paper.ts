// The published system, and improved variants of it, as engines.

import {
  Context,
  ENCODINGS,
  type EncodingName,
  type Encryption,
  PaperClient,
  PaperServer,
  type ParameterSetName,
  parameterSet,
  type Relinearisation,
} from '@hers/paper';
import type { Engine } from './engine.ts';

export interface PaperVariant {
  readonly encoding: EncodingName;
  readonly parameters: ParameterSetName;
  readonly relinearise: Relinearisation;
  readonly encryption: Encryption;
  readonly switchModulus?: boolean;
}

const published = { parameters: 'bfv_n_4096_t_1032193', relinearise: 'each', encryption: 'public' } as const;

/** The first three are the paper's; the others are what SEAL could do for it. */
export const PAPER_VARIANTS = {
  naive: { ...published, encoding: 'naive' },
  boddeti: { ...published, encoding: 'boddeti' },
  hers: { ...published, encoding: 'hers' },
  'hers-lazy': { ...published, encoding: 'hers', relinearise: 'once' },
  // The fastest that SEAL offers for this search, with the paper's own t.
  'hers-bgv': {
    encoding: 'hers',
    parameters: 'bgv_n_4096_t_1032193',
    relinearise: 'once',
    encryption: 'seeded',
    switchModulus: true,
  },
  'hers-bgv-public': { encoding: 'hers', parameters: 'bgv_n_4096_t_147457', relinearise: 'once', encryption: 'public' },
  // Only for vectors up to a norm of 0.72: see the README of paper.
  'hers-bgv-65537': { encoding: 'hers', parameters: 'bgv_n_4096_t_65537', relinearise: 'once', encryption: 'public' },
} as const satisfies Record<string, PaperVariant>;

export type PaperVariantName = keyof typeof PAPER_VARIANTS;

export interface PaperEngine extends Engine {
  readonly client: PaperClient;
  readonly server: PaperServer;
  readonly context: Context;
}

export interface PaperEngineOptions {
  readonly dimension: number;
  /** A context to share, with the parameters of the variant. The caller closes it. */
  readonly context?: Context;
  /** Refuses at once if this many templates do not fit. */
  readonly templates?: number;
}

/** @example const engine = await openPaper('hers', { dimension: 128 }); */
export async function openPaper(name: PaperVariantName, options: PaperEngineOptions): Promise<PaperEngine> {
  const { dimension, templates } = options;
  const { encoding, parameters, encryption }: PaperVariant = PAPER_VARIANTS[name];
  const context = options.context ?? (await Context.open(parameterSet(parameters)));
  if (context.parameters.name !== parameters) throw new Error(`${name} needs the parameters ${parameters}.`);
  const owned: Disposable[] = options.context ? [] : [context];
  const close = () => {
    for (const each of owned.splice(0).reverse()) each[Symbol.dispose]();
  };
  try {
    const client = new PaperClient(context, ENCODINGS[encoding], { dimension, encryption });
    owned.push(client);
    const server = paperServer(name, context, client.keys, {
      dimension,
      ...(templates === undefined ? {} : { templates }),
    });
    owned.push(server);
    return { name, exact: true, client, server, context, close: async () => close() };
  } catch (error) {
    close();
    throw error;
  }
}

/** The server of a variant alone: it has only what it is sent. */
export function paperServer(
  name: PaperVariantName,
  context: Context,
  keys: Uint8Array,
  options: Pick<PaperEngineOptions, 'dimension' | 'templates'>,
): PaperServer {
  const { encoding, relinearise, switchModulus = false }: PaperVariant = PAPER_VARIANTS[name];
  return new PaperServer(context, ENCODINGS[encoding], keys, { relinearise, switchModulus, ...options });
}
