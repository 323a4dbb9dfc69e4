// Compressors as ONNX graphs. All of them take vectors of any length as `vectors` and give unit
// vectors as `compressed`; they normalise at both ends themselves, so that whatever tool runs them
// does the same.

import { type Compressor, load } from '@hers/compress';
import { type Metadata, metadataProperties } from '@hers/compress/compressor';
import { encodeModel, type OnnxNode, type OnnxTensor } from '@hers/compress/onnx';
import { product } from '../training/session.ts';
import type { LinearMap } from './linear.ts';

export interface Body {
  /** From `unit`, the normalised input, to `raw`, the output before it is normalised. */
  nodes: OnnxNode[];
  tensors: OnnxTensor[];
  inputDimension: number;
  outputDimension: number;
}

/** Vectors are compared by cosine; most methods have no notes. */
export function encodeCompressor(
  body: Body,
  about: Omit<Metadata, 'metric' | 'notes'> & { notes?: readonly string[] },
): Uint8Array<ArrayBuffer> {
  const metadata: Metadata = { metric: 'cosine', notes: [], ...about };
  return encodeModel({
    nodes: [
      { op: 'LpNormalization', inputs: ['vectors'], outputs: ['unit'], attributes: { axis: 1, p: 2 } },
      ...body.nodes,
      { op: 'LpNormalization', inputs: ['raw'], outputs: ['compressed'], attributes: { axis: 1, p: 2 } },
    ],
    tensors: body.tensors,
    inputs: [{ name: 'vectors', shape: ['count', body.inputDimension] }],
    outputs: [{ name: 'compressed', shape: ['count', body.outputDimension] }],
    metadata: metadataProperties(metadata),
    description: `${metadata.method}: ${body.inputDimension} to ${body.outputDimension} dimensions, compared by cosine`,
  });
}

/** The compressor of a body as it will be saved, for measuring it. */
export function loadBody(body: Body): Promise<Compressor> {
  return load(encodeCompressor(body, { method: '', settings: {}, figures: {} }));
}

/** `(x − centre) A = x A − centre A`: one layer. */
export function linearBody({ axes, centre, offset, inputDimension, outputDimension }: LinearMap): Body {
  const weights = new Float32Array(inputDimension * outputDimension);
  const bias = new Float32Array(outputDimension);
  for (let o = 0; o < outputDimension; o++) {
    let shift = 0;
    for (let i = 0; i < inputDimension; i++) {
      const weight = axes[o * inputDimension + i];
      weights[i * outputDimension + o] = weight;
      shift += weight * centre[i];
    }
    bias[o] = (offset?.[o] ?? 0) - shift;
  }
  return {
    nodes: [{ op: 'Gemm', inputs: ['unit', 'weights', 'bias'], outputs: ['raw'] }],
    tensors: [
      { name: 'weights', shape: [inputDimension, outputDimension], data: weights },
      { name: 'bias', shape: [outputDimension], data: bias },
    ],
    inputDimension,
    outputDimension,
  };
}

/** What a linear map makes of vectors, one after the other. */
export async function appliedLinear(
  map: LinearMap,
  vectors: Float32Array,
  threads: number,
): Promise<Float32Array<ArrayBuffer>> {
  const { tensors, inputDimension, outputDimension } = linearBody(map);
  const [weights, bias] = tensors.map(({ data }) => data as Float32Array);
  const x = { data: vectors, columns: inputDimension };
  const mapped = await product(x, { data: weights, columns: outputDimension }, { threads });
  for (let at = 0; at < mapped.length; ) for (let k = 0; k < outputDimension; k++) mapped[at++] += bias[k];
  return mapped as Float32Array<ArrayBuffer>;
}
