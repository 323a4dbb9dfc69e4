// The loop around the steps: learning rate, progress, the learning curve, the best weights so far,
// an early end, interruption and resumption. What a step draws at random depends on the seed and
// its number alone, so that training taken up again from a checkpoint goes on as if nothing had
// happened.

import { CompressError, type CurvePoint } from '@hers/compress';
import { decodeModel, encodeModel } from '@hers/compress/onnx';
import type { Context, Task } from '../methods/method.ts';
import type { Feeds, Matrices } from './session.ts';
import type { Trainer } from './trainer.ts';

export interface Course {
  stage: string;
  /** What the learning rate is planned for. */
  steps: number;
  /** The step to end at, where that is not the last one planned. */
  end?: number;
  /** Steps of other courses of the same training, done and to come: for progress alone. */
  before?: number;
  later?: number;
  /** The batch of a step; sees the weights as they are. */
  batch(step: number, parameters: Float32Array): Promise<Feeds>;
  learningRate(step: number): number;
  /** Rank-1 on held-out identities; without it, the last weights are the result. */
  validate?: ((parameters: Float32Array) => Promise<number>) | undefined;
  /** Steps between two points of the curve; 0 for no curve. */
  every: number;
  /** Steps without a better validation after which training ends; 0 for never. */
  patience: number;
  fingerprint: string;
  /** What a checkpoint has to know of courses that are over, as JSON. */
  settled?: unknown;
  resume?: Checkpoint | undefined;
}

export interface Outcome {
  parameters: Float32Array;
  figures: Record<string, number>;
  curve: CurvePoint[];
}

const CHECKPOINT_SECONDS = 60;
/** Seconds between two words of progress. */
const PROGRESS_SECONDS = 0.25;

/** The share of the latest loss in the running average that is shown. */
const FRESH = 0.05;

export async function train(trainer: Trainer, course: Course, context: Context): Promise<Outcome> {
  const { steps, end = steps, before = 0, later = 0, every, validate, fingerprint, settled = null } = course;
  let best = validate ? trainer.result : undefined;
  let figures: Record<string, number> = { steps: 0, loss: Number.NaN };
  let curve: CurvePoint[] = [];
  if (course.resume) {
    trainer.restore(course.resume.state, course.resume.step);
    ({ best, figures, curve } = course.resume);
    if (validate && best?.length !== trainer.parameters.length)
      throw new CompressError('MALFORMED', 'The checkpoint is damaged: weights are missing.');
    // JSON has no NaN.
    figures.loss ??= Number.NaN;
  }
  const begun = { at: performance.now(), step: trainer.steps };
  let [spoken, saved] = [0, begun.at];
  const save = () => {
    const { steps: step, state } = trainer;
    context.checkpoint(encodeCheckpoint({ fingerprint, settled, step, figures, curve, state, best }));
  };
  const average = (old: number | undefined, now: number) =>
    old === undefined || Number.isNaN(old) ? now : (1 - FRESH) * old + FRESH * now;
  while (trainer.steps < end && !ended(figures, course)) {
    if (context.aborted) {
      save();
      context.throwIfAborted();
    }
    const step = trainer.steps;
    const { loss, penalty } = await trainer.step(
      await course.batch(step, trainer.parameters),
      course.learningRate(step),
    );
    if (!Number.isFinite(loss))
      throw new CompressError(
        'DIVERGED',
        `The loss is no longer a number after ${step} steps: try a smaller learning rate.`,
      );
    figures.loss = average(figures.loss, loss);
    if (penalty !== undefined) figures.penaltyShare = average(figures.penaltyShare, loss > 0 ? penalty / loss : 0);
    figures.steps = trainer.steps;
    if (every > 0 && (trainer.steps % every === 0 || trainer.steps === end)) {
      const point: CurvePoint = { step: trainer.steps, loss: figures.loss };
      if (penalty !== undefined) point.penaltyShare = figures.penaltyShare;
      if (validate) {
        point.rank1 = await validate(trainer.result);
        if (!(point.rank1 <= figures.validationRank1)) {
          Object.assign(figures, { validationRank1: point.rank1, bestStep: trainer.steps });
          best = trainer.result;
        }
      }
      curve.push(point);
    }
    const now = performance.now();
    if (now - spoken > PROGRESS_SECONDS * 1000 || trainer.steps === end) {
      spoken = now;
      const perStep = (now - begun.at) / 1000 / (trainer.steps - begun.step);
      context.progress({
        stage: course.stage,
        done: (before + trainer.steps) / (before + end + later),
        secondsLeft: perStep * (end - trainer.steps + later),
        step: trainer.steps,
        steps: end,
        loss: figures.loss,
        ...(figures.validationRank1 !== undefined && { validation: figures.validationRank1 }),
      });
    }
    if (now - saved > CHECKPOINT_SECONDS * 1000) {
      saved = now;
      save();
    }
  }
  return { parameters: best ?? trainer.result, figures, curve };
}

function ended({ steps, bestStep = 0 }: Record<string, number>, { patience, validate }: Course): boolean {
  return validate !== undefined && patience > 0 && steps - bestStep >= patience;
}

// Training that was interrupted, as bytes: the state of the optimizer, the best weights so far, and
// what they belong to. An ONNX file without nodes: one format is enough.

export interface Checkpoint {
  /** The method, the vectors and the options it belongs to. */
  fingerprint: string;
  /** What is known of the courses that are over. */
  settled: unknown;
  step: number;
  figures: Record<string, number>;
  curve: CurvePoint[];
  state: Matrices;
  /** Of the weights that were validated. */
  best: Float32Array | undefined;
}

const KEY = 'hers.checkpoint';
const BEST = 'best';

function encodeCheckpoint({ state, best, ...rest }: Checkpoint): Uint8Array<ArrayBuffer> {
  const named = Object.entries({ ...state, ...(best && { [BEST]: { data: best, shape: [best.length] } }) });
  const tensors = named.map(([name, { data, shape }]) => ({ name, data: data as Float32Array, shape }));
  return encodeModel({ nodes: [], tensors, inputs: [], outputs: [], metadata: { [KEY]: JSON.stringify(rest) } });
}

/** Reads a checkpoint, and refuses one that belongs to other vectors or options. */
export function decodeCheckpoint(bytes: Uint8Array, fingerprint: string): Checkpoint {
  const { tensors, metadata } = decodeModel(bytes);
  const refuse = (why: string) =>
    new CompressError('INVALID_ARGUMENT', `This is not a checkpoint to resume from: ${why}.`);
  if (metadata?.[KEY] === undefined) throw refuse('it was not written by fit');
  let rest: Omit<Checkpoint, 'state' | 'best'>;
  try {
    rest = JSON.parse(metadata[KEY]);
  } catch {
    throw new CompressError('MALFORMED', 'The checkpoint is damaged: what it belongs to cannot be read.');
  }
  if (rest.fingerprint !== fingerprint) throw refuse('the method, the vectors, the seed or the settings have changed');
  const state: Matrices = {};
  for (const { name, shape, data } of tensors) {
    if (!(data instanceof Float32Array)) throw refuse('it is damaged');
    state[name] = { data, shape };
  }
  const { [BEST]: best, ...others } = state;
  return { ...rest, state: others, best: best?.data as Float32Array | undefined };
}

/** Names a task: 53 bits of the vectors (FNV-1a in two lanes), and everything else in words. */
export function fingerprintOf(method: string, { set, dimension, seed, validation, settings }: Task<object>): string {
  let [low, high] = [0x811c9dc5, 0x01000193];
  for (const words of [new Uint32Array(set.vectors.buffer), new Uint32Array(set.classes.buffer)])
    for (let i = 0; i < words.length; i++) {
      low = Math.imul(low ^ words[i], 0x01000193);
      high = Math.imul(high ^ (words[i] + i), 0x85ebca6b);
    }
  const vectors = `${(low >>> 0).toString(16)}${(high >>> 0).toString(16)}`;
  return JSON.stringify({
    method,
    vectors,
    count: set.count,
    from: set.dimension,
    dimension,
    seed,
    validation,
    settings,
  });
}
