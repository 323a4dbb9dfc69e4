// The experiments of the paper, and their pages.

import { fileURLToPath } from 'node:url';
import type { Experiments } from '../lab/experiment.ts';

export const EXPERIMENTS: Experiments = {
  results: fileURLToPath(new URL('../../results/', import.meta.url)),
  byName: {
    table1: { experiment: async () => (await import('./table1.ts')).table1, page: () => import('./table1.page.ts') },
    table2: { experiment: async () => (await import('./table2.ts')).table2, page: () => import('./table2.page.ts') },
    figure3: {
      experiment: async () => (await import('./figure3.ts')).figure3,
      page: () => import('./figure3.page.ts'),
    },
    table3: { experiment: async () => (await import('./table3.ts')).table3, page: () => import('./table3.page.ts') },
    'two-stage': {
      experiment: async () => (await import('./two-stage.ts')).twoStage,
      page: () => import('./two-stage.page.ts'),
    },
    faces: { experiment: async () => (await import('./faces.ts')).faces, page: () => import('./faces.page.ts') },
    networks: {
      experiment: async () => (await import('./networks.ts')).networks,
      page: () => import('./networks.page.ts'),
    },
    pictures: {
      experiment: async () => (await import('./pictures.ts')).pictures,
      page: () => import('./pictures.page.ts'),
    },
    chains: { experiment: async () => (await import('./chains.ts')).chains, page: () => import('./chains.page.ts') },
    ablation: {
      experiment: async () => (await import('./ablation.ts')).ablation,
      page: () => import('./ablation.page.ts'),
    },
    'two-stage-accuracy': {
      experiment: async () => (await import('./two-stage-accuracy.ts')).twoStageAccuracy,
      page: () => import('./two-stage-accuracy.page.ts'),
    },
    dimension: {
      experiment: async () => (await import('./dimension.ts')).dimension,
      page: () => import('./dimension.page.ts'),
    },
    inversion: {
      experiment: async () => (await import('./inversion.ts')).inversion,
      page: () => import('./inversion.page.ts'),
    },
    'inversion-compressed': {
      experiment: async () => (await import('./inversion-compressed.ts')).inversionCompressed,
      page: () => import('./inversion-compressed.page.ts'),
    },
    whole: { experiment: async () => (await import('./whole.ts')).whole, page: () => import('./whole.page.ts') },
  },
};
