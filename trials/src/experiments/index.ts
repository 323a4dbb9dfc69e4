// The experiments about the product, and their pages.

import { fileURLToPath } from 'node:url';
import type { Experiments } from '@hers/paper/lab/experiment';

export const EXPERIMENTS: Experiments = {
  results: fileURLToPath(new URL('../../../docs/results/', import.meta.url)),
  byName: {
    communication: {
      experiment: async () => (await import('./communication.ts')).communication,
      page: () => import('./communication.page.ts'),
    },
    auto: { experiment: async () => (await import('./auto.ts')).autoExperiment, page: () => import('./auto.page.ts') },
    'encryption-cost': {
      experiment: async () => (await import('./encryption-cost.ts')).encryptionCost,
      page: () => import('./encryption-cost.page.ts'),
    },
    cluster: {
      experiment: async () => (await import('./cluster.ts')).cluster,
      page: () => import('./cluster.page.ts'),
    },
    gpu: { experiment: async () => (await import('./gpu.ts')).gpu, page: () => import('./gpu.page.ts') },
    speed: { experiment: async () => (await import('./speed.ts')).speed, page: () => import('./speed.page.ts') },
  },
};
