// What a model is to the console: something that turns a picture or a text into vectors. It runs in
// a worker of its own, which has no key, no token of the session and no way to other origins.

/** What is known of a model before it is loaded. */
export interface ModelFacts {
  /** How it is called on the page, and in addresses: letters, digits and hyphens. */
  readonly name: string;
  readonly takes: 'picture' | 'text';
  readonly dimension: number;
  readonly metric: 'cosine' | 'dot' | 'euclidean';
  /** The length of its longest vector, where the metric is not cosine. */
  readonly normBound?: number;
}

/** A part of a picture, in its pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A vector, and of a picture the part that it stands for. */
export interface Embedded {
  readonly vector: Float32Array;
  readonly box?: Box;
}

/** A model that is loaded. A text has one vector; a picture has as many as there are in it. */
export interface LoadedModel {
  embed(input: string | ImageBitmap): Promise<readonly Embedded[]>;
}

/** Loads a model whose files lie below `base`. A module of a model exports it as `load`. */
export type LoadModel = (base: URL) => Promise<LoadedModel>;

export interface ModelQuestion {
  readonly number: number;
  readonly input: string | ImageBitmap;
}

export type ModelAnswer =
  | { readonly number: number; readonly found: readonly Embedded[] }
  | { readonly number: number; readonly problem: string };

/** What a worker has that the types of pages do not. */
interface WorkerScope {
  readonly location: { readonly href: string };
  onmessage: ((event: { readonly data: ModelQuestion }) => void) | null;
  postMessage(answer: ModelAnswer): void;
}

/** Answers the questions of the page, one after the other. The model is loaded with the first. */
export function serveModel(load: LoadModel): void {
  const scope = globalThis as unknown as WorkerScope;
  let loading: Promise<LoadedModel> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const answer = async ({ number, input }: ModelQuestion): Promise<ModelAnswer> => {
    try {
      loading ??= load(new URL('.', scope.location.href));
      return { number, found: await (await loading).embed(input) };
    } catch (error) {
      return { number, problem: error instanceof Error ? error.message : String(error) };
    } finally {
      if (typeof input !== 'string') input.close();
    }
  };
  scope.onmessage = ({ data }) => {
    last = last.then(async () => scope.postMessage(await answer(data)));
  };
}
