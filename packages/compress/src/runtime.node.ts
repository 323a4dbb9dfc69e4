// onnxruntime for Node, with one thread: the cores are for the search engine beside it.

import * as ort from 'onnxruntime-node';
import type { Runtime } from './compressor.ts';

export const runtime: Runtime = {
  async open(model) {
    const session = await ort.InferenceSession.create(model, { intraOpNumThreads: 1, interOpNumThreads: 1 });
    const [input] = session.inputNames;
    const [output] = session.outputNames;
    return async (vectors, rows) => {
      const feeds = { [input]: new ort.Tensor('float32', vectors, [rows, vectors.length / rows]) };
      return (await session.run(feeds))[output].data as Float32Array;
    };
  },
};
