// onnxruntime behind two lines: a graph becomes a function. Blocks the thread that calls it; training therefore has a thread of its own.

import * as ort from 'onnxruntime-node';
import { encodeModel, type OnnxModel } from './apply/onnx.ts';

export interface Array32 {
  data: Float32Array;
  shape: readonly number[];
}

export type Feeds = Record<string, Array32 | { indices: BigInt64Array }>;

/** A graph ready to run. Outputs are new arrays, the caller's to keep. */
export type Session = (feeds: Feeds) => Promise<Record<string, Float32Array>>;

export async function openSession(model: OnnxModel, { threads = 1 }: { threads?: number } = {}): Promise<Session> {
  const session = await ort.InferenceSession.create(encodeModel(model), {
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    logSeverityLevel: 3,
  });
  return async (feeds) => {
    const tensors: Record<string, ort.Tensor> = {};
    for (const [name, feed] of Object.entries(feeds))
      tensors[name] =
        'indices' in feed
          ? new ort.Tensor('int64', feed.indices, [feed.indices.length])
          : new ort.Tensor('float32', feed.data, feed.shape as number[]);
    const results = await session.run(tensors);
    return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, tensor.data as Float32Array]));
  };
}
