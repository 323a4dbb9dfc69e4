// The loop around the steps: learning rate, progress, validation, the best weights so far, an early
// end, interruption and resumption. What a step draws at random depends on the seed and its number
// alone, so that training taken up again goes on as if nothing had happened.

import { CompressError } from '../apply/errors.ts';
import type { Context } from '../methods/method.ts';
import { type Checkpoint, encodeCheckpoint } from './checkpoint.ts';
import type { Matrices } from './session.ts';
import type { Trainer } from './trainer.ts';

export interface Course {
  stage: string;
  epochs: number;
  stepsPerEpoch: number;
  /** The batch of a step; sees the weights as they are. */
  batch(step: number, parameters: Matrices): Promise<Matrices>;
  learningRate(step: number): number;
  /** Rank-1 on held-out identities; without it, the last weights are the result. */
  validate?: ((parameters: Matrices) => Promise<number>) | undefined;
  /** Epochs between two validations. */
  validateEvery: number;
  /** Epochs without a better validation after which training ends; 0 for never. */
  patience: number;
  fingerprint: string;
  resume?: Checkpoint | undefined;
}

export interface Outcome {
  parameters: Matrices;
  figures: Record<string, number>;
}

/** Seconds between two checkpoints. */
const CHECKPOINT_SECONDS = 60;
/** Seconds between two words of progress. */
const PROGRESS_SECONDS = 0.25;

/** The share of the latest loss in the running average that is shown. */
const FRESH = 0.05;

export async function train(trainer: Trainer, course: Course, context: Context): Promise<Outcome> {
  const { epochs, stepsPerEpoch, validate, fingerprint } = course;
  const steps = epochs * stepsPerEpoch;
  let best = trainer.result;
  let figures: Record<string, number> = { epochs: 0, loss: Number.NaN };
  if (course.resume) {
    trainer.restore(course.resume.state, course.resume.step);
    ({ best, figures } = course.resume);
    // JSON has no NaN.
    figures.loss ??= Number.NaN;
  }
  const begun = { at: performance.now(), step: trainer.steps };
  let [spoken, saved] = [0, begun.at];
  const save = () =>
    context.checkpoint(encodeCheckpoint({ fingerprint, step: trainer.steps, figures, state: trainer.state, best }));
  while (trainer.steps < steps && !ended(figures, course)) {
    if (context.aborted) {
      save();
      context.throwIfAborted();
    }
    const step = trainer.steps;
    const loss = await trainer.step(await course.batch(step, trainer.parameters), course.learningRate(step));
    if (!Number.isFinite(loss))
      throw new CompressError(
        'DIVERGED',
        `The loss is no longer a number after ${step} steps: try a smaller learning rate.`,
      );
    figures.loss = Number.isNaN(figures.loss) ? loss : (1 - FRESH) * figures.loss + FRESH * loss;
    const epochEnds = trainer.steps % stepsPerEpoch === 0;
    figures.epochs = trainer.steps / stepsPerEpoch;
    if (epochEnds && validate && (figures.epochs % course.validateEvery === 0 || figures.epochs === epochs)) {
      const rank = await validate(trainer.result);
      if (!(rank <= figures.validationRank1)) {
        Object.assign(figures, { validationRank1: rank, bestEpoch: figures.epochs });
        best = trainer.result;
      }
    }
    const now = performance.now();
    if (now - spoken > PROGRESS_SECONDS * 1000 || trainer.steps === steps) {
      spoken = now;
      const perStep = (now - begun.at) / 1000 / (trainer.steps - begun.step);
      context.progress({
        stage: course.stage,
        done: trainer.steps / steps,
        secondsLeft: perStep * (steps - trainer.steps),
        epoch: Math.floor(figures.epochs),
        epochs,
        loss: figures.loss,
        ...(figures.validationRank1 !== undefined && { validation: figures.validationRank1 }),
      });
    }
    if (now - saved > CHECKPOINT_SECONDS * 1000) {
      saved = now;
      save();
    }
  }
  return { parameters: validate ? best : trainer.result, figures };
}

function ended({ epochs, bestEpoch = 0 }: Record<string, number>, { patience, validate }: Course): boolean {
  return validate !== undefined && patience > 0 && epochs - bestEpoch >= patience;
}
