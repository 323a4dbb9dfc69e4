// The page about clusters: what was measured on one machine, and a model of many.

import type { ClusterParameters } from './cluster.ts';
import type { Data, Rendered } from './experiment.ts';
import { Figures } from './figures.ts';
import { page, table } from './markdown.ts';
import { bySeries, logAxis, NAMED_LINE_END, render as plotted, SCHEMA } from './plot.ts';
import { bytes, seconds, significant, templates } from './quantities.ts';

type ClusterData = Data<ClusterParameters>;

const MODEL_NODES = [10, 100, 1000];
const MODEL_TEMPLATES = [1e8, 1e9, 1e10];
/** Assumed: what a machine of the model has. */
const CORES = 16;
const NETWORK_BYTES_PER_SECOND = 10e9 / 8;
/** What a client keeps of every record, fetched at first contact. */
const LIST_BYTES = 28;
/** A template of 128 dimensions with its share of a block, on disk. */
const TEMPLATE_BYTES = 524;
const REPLICAS = 3;

export async function render(data: ClusterData): Promise<Rendered> {
  const { count, dimension, searches, shards, nodes } = data.parameters;
  const figures = new Figures(data);
  const value = (name: string) => figures.value(name);
  const ratio = (name: string) => (figures.has(name) ? value(name).toFixed(2) : '–');
  const markdown = page(data, 'Several machines', 'The model: one search against the number of nodes', [
    `The same ${templates(count)} templates of ${dimension} dimensions on one plain server and on clusters of ${nodes.join(', ')} nodes with ${shards} shards and three servers of NATS, all processes of one machine with ${data.machine.cores} cores, one after the other in the same run. Each node of a cluster of up to three keeps all shards, and a search asks one node for each. Medians of ${searches} searches over HTTP; CPU is that of the processes that serve.`,
    table(
      [
        '',
        'enrolled a second',
        'search, ms',
        'CPU of the busiest node, ms',
        'CPU of all nodes, ms',
        'scanned by one node',
      ],
      [
        ['server', ...['enrol', 'search', 'cpu', 'cpu'].map((name) => significant(value(`${name}-server`))), '–'],
        ...nodes.map((each) => [
          `${each} ${each === 1 ? 'node' : 'nodes'}`,
          ...['enrol', 'search', 'cpu-per-node', 'cpu-all-nodes'].map((name) => significant(value(`${name}-${each}`))),
          figures.has(`scanned-per-node-${each}`) ? bytes(value(`scanned-per-node-${each}`)) : '–',
        ]),
      ],
    ),
    `A search of one node behind the ledger takes ${ratio('search-over-server')} times that of a plain server, and enrolment ${ratio('enrol-over-server')} times as long. With three nodes the busiest scans ${ratio('scanned-share-3')} of the bytes that one alone does, and uses ${ratio('work-per-node-3')} times its CPU: it is the one that the client speaks to. For every search, however large the gallery is, that one asks a majority for the version twice (when the client reads it, and when it searches), asks two nodes to scan, and passes their responses on; and all of them look after their shards meanwhile. In a gallery of this size that is more than the scan. The cores are the same ones, so more nodes cannot be faster here.`,
    '## A model of many machines',
    'None of this was measured. It takes the figures above, and that all of these are done at once, so the slowest decides:',
    [
      `- every node scans its share: ${significant(perTemplate(data))} µs of one core for each template, ${CORES} cores a node;`,
      `- the node that a client speaks to takes the responses of the others and passes them on: ${significant(responseBytes(data))} bytes for each template, over a network of 10 Gbit/s, and at most ${significant(coordination(data))} ns of CPU for each byte. That is all the CPU that three nodes used beyond a plain server, so it contains what a search costs at any size: an upper bound, by which the model is too slow for large galleries;`,
      `- the client decrypts on ${CORES} cores, as fast as a node scans.`,
    ].join('\n'),
    modelTable(data),
    `Storage is ${REPLICAS} replicas. What decides is marked: *scan* falls with the number of nodes; *answer* is the response on its way through one node to one client, and no number of nodes makes it shorter. So the model says where it breaks: ${breaks(data)}, more nodes serve more searches at once, and no single search faster. For ${templates(1e10)} one search brings ${bytes(1e10 * responseBytes(data))} to the client, and its lists (${LIST_BYTES} bytes a record, fetched at first contact) are ${bytes(1e10 * LIST_BYTES)}: such a gallery has to be searched by partitions, or by several clients that keep a part each.`,
  ]);
  return { markdown, svg: await plot(data) };
}

/** Microseconds of one core for a template. */
function perTemplate(data: ClusterData): number {
  // The clock of processes counts in hundredths of a second.
  return (1000 * Math.max(0.1, new Figures(data).value('cpu-server'))) / data.parameters.count;
}

function responseBytes(data: ClusterData): number {
  return new Figures(data).value('response-bytes') / data.parameters.count;
}

/** Nanoseconds for a byte of a response. */
function coordination(data: ClusterData): number {
  const figures = new Figures(data);
  return figures.has('coordination-per-byte') ? Math.max(0, figures.value('coordination-per-byte')) : 0;
}

interface Modelled {
  readonly scan: number;
  readonly answer: number;
}

/** Seconds of one search. */
function model(data: ClusterData, count: number, nodes: number): Modelled {
  const answered = count * responseBytes(data);
  const scan = (count * perTemplate(data) * 1e-6) / (nodes * CORES);
  const decrypt = (count * perTemplate(data) * 1e-6) / CORES;
  const pass = Math.max((answered * coordination(data) * 1e-9) / CORES, answered / NETWORK_BYTES_PER_SECOND);
  return { scan, answer: Math.max(decrypt, pass) };
}

/** From how many nodes on the response takes longer than the scan. */
function breaks(data: ClusterData): string {
  const { scan, answer } = model(data, 1e9, 1);
  const nodes = Math.ceil(scan / answer);
  return nodes <= 1 ? 'at any number of nodes' : `beyond ${nodes} nodes, whatever the gallery`;
}

function modelTable(data: ClusterData): string {
  return table(
    ['templates', 'nodes', 'disk of a node', 'scan', 'answer', 'one search', 'searches a second'],
    MODEL_TEMPLATES.flatMap((count) =>
      MODEL_NODES.map((nodes) => {
        const { scan, answer } = model(data, count, nodes);
        return [
          templates(count),
          String(nodes),
          bytes((REPLICAS * count * TEMPLATE_BYTES) / nodes),
          seconds(scan),
          seconds(answer),
          `${seconds(Math.max(scan, answer))} (${scan > answer ? 'scan' : 'answer'})`,
          // Clients are many, and every node takes some: only the scans add up.
          significant(1 / scan),
        ];
      }),
    ),
  );
}

function plot(data: ClusterData): Promise<string> {
  const steps = [3, 10, 30, 100, 300, 1000];
  const points = MODEL_TEMPLATES.flatMap((count) =>
    steps.map((nodes) => {
      const { scan, answer } = model(data, count, nodes);
      return { name: templates(count), nodes, seconds: Math.max(scan, answer) };
    }),
  );
  const names = MODEL_TEMPLATES.map((count) => templates(count));
  const series = bySeries('name', names, { legend: null });
  return plotted({
    $schema: SCHEMA,
    title: { text: 'One search of a cluster: a model, not measured', subtitle: `${CORES} cores a node, 10 Gbit/s` },
    width: 480,
    height: 300,
    data: { values: points },
    encoding: {
      x: logAxis('nodes', steps, 'count', 'nodes'),
      y: logAxis(
        'seconds',
        points.map(({ seconds: s }) => s),
        'seconds',
        null,
      ),
      color: series.color,
    },
    layer: [
      { mark: { type: 'line', strokeWidth: 2 } },
      { mark: { type: 'point', size: 90, strokeWidth: 2, opacity: 1 }, encoding: { shape: series.shape } },
      {
        data: { values: names.map((name) => points.findLast((point) => point.name === name)!) },
        mark: NAMED_LINE_END,
        encoding: { text: { field: 'name', type: 'nominal' } },
      },
    ],
  });
}
