// The experiments by name. Each is loaded when it is asked for, so that listing them is instant.

import type { Experiment } from './experiment.ts';

export const EXPERIMENTS: Readonly<Record<string, () => Promise<Experiment>>> = {
  table1: async () => (await import('./table1.ts')).table1,
  table2: async () => (await import('./table2.ts')).table2,
  figure3: async () => (await import('./figure3.ts')).figure3,
  table3: async () => (await import('./table3.ts')).table3,
  'two-stage': async () => (await import('./two-stage.ts')).twoStage,
  communication: async () => (await import('./communication.ts')).communication,
  faces: async () => (await import('./faces.ts')).faces,
  pictures: async () => (await import('./pictures.ts')).pictures,
  ablation: async () => (await import('./ablation.ts')).ablation,
  'two-stage-accuracy': async () => (await import('./two-stage-accuracy.ts')).twoStageAccuracy,
  'encryption-cost': async () => (await import('./encryption-cost.ts')).encryptionCost,
  dimension: async () => (await import('./dimension.ts')).dimension,
  inversion: async () => (await import('./inversion.ts')).inversion,
};
