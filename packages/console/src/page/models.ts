// The models of this page: which there are, and those that run. A model is loaded when it is first
// asked, into a worker of its own, from this origin. Locking ends the workers, with what they saw.

import { type Signal, signal } from '@preact/signals';
import type { Embedded, ModelAnswer, ModelFacts, ModelQuestion } from '../models/model.ts';
import { arrival } from './session.ts';
import { whenForgotten } from './state.ts';

export type { Embedded, ModelFacts } from '../models/model.ts';

interface Missing {
  readonly facts: ModelFacts;
  readonly packages: readonly string[];
}

export interface Shelf {
  readonly models: readonly ModelFacts[];
  readonly missing: readonly Missing[];
}

/** What the server of this page has. It is asked once. */
export const shelf: Signal<Shelf> = signal({ models: [], missing: [] });

export async function readShelf(): Promise<void> {
  const answer = await fetch('models');
  if (answer.ok) shelf.value = await answer.json();
}

/** For vectors of these dimensions: what can be given in the place of numbers. */
export function modelsFor(dimension: number): Shelf {
  const fits = ({ dimension: own }: ModelFacts) => own === dimension;
  const { models, missing } = shelf.value;
  return { models: models.filter(fits), missing: missing.filter(({ facts }) => fits(facts)) };
}

/** Models that load just now. */
export const loading: Signal<ReadonlySet<string>> = signal(new Set());

interface Running {
  readonly worker: Worker;
  readonly waiting: Map<number, PromiseWithResolvers<readonly Embedded[]>>;
}

const running = new Map<string, Running>();
let next = 1;

/** What it loads is no file of ours, and of no layer: the server makes it for each model. */
const Thread: typeof Worker = globalThis.Worker;

function start(name: string): Running {
  const worker = new Thread(`models/${encodeURIComponent(name)}/worker.js`, { type: 'module', name: `model ${name}` });
  const waiting: Running['waiting'] = new Map();
  const end = (why: string) => {
    if (running.get(name)?.worker === worker) running.delete(name);
    worker.terminate();
    for (const { reject } of waiting.values()) reject(new Error(why));
    waiting.clear();
  };
  worker.onmessage = ({ data }: MessageEvent<ModelAnswer>) => {
    const asked = waiting.get(data.number);
    waiting.delete(data.number);
    if ('problem' in data) asked?.reject(new Error(data.problem));
    else asked?.resolve(data.found);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    end(`the model ${name} could not be loaded${event.message ? `: ${event.message}` : ''}`);
  };
  const started = { worker, waiting };
  running.set(name, started);
  return started;
}

/** The vectors of a text or a picture. The worker gets a copy of a picture, and closes it. */
export async function embed(
  { name, dimension }: ModelFacts,
  input: string | ImageBitmap,
): Promise<readonly Embedded[]> {
  const content = typeof input === 'string' ? input : await createImageBitmap(input);
  const isFirst = !running.has(name);
  const { worker, waiting } = running.get(name) ?? start(name);
  const number = next++;
  const asked = Promise.withResolvers<readonly Embedded[]>();
  waiting.set(number, asked);
  const question: ModelQuestion = { number, input: content };
  worker.postMessage(question, typeof content === 'string' ? [] : [content]);
  if (isFirst) loading.value = new Set([...loading.value, name]);
  try {
    const found = await asked.promise;
    const wrong = found.find(({ vector }) => !(vector instanceof Float32Array && vector.length === dimension));
    if (wrong) throw new Error(`the model ${name} has not given vectors of ${dimension} dimensions`);
    return found;
  } finally {
    loading.value = new Set([...loading.value].filter((each) => each !== name));
  }
}

whenForgotten(() => {
  for (const { worker, waiting } of running.values()) {
    worker.terminate();
    for (const { reject } of waiting.values()) reject(new Error('it was locked'));
  }
  running.clear();
});

/** Why there is no model here, for people. */
export function missingText(missing: Missing): string {
  const what = missing.facts.takes === 'picture' ? 'Photographs' : 'Sentences';
  return arrival.value.state === 'here' && arrival.value.kind === 'server'
    ? `${what} need a model, and models come with hers console on your own machine.`
    : `${what} need a model that is not installed. Run this beside hers console, and start it again:`;
}
