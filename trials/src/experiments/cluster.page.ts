// The page about clusters: what was measured on one machine, and a model of many.

import type { Data, Rendered } from '@hers/paper/lab/experiment';
import { Figures, page, table } from '@hers/paper/lab/markdown';
import { bySeries, logAxis, logAxisOf, namedLines, render as plotted, SCHEMA } from '@hers/paper/lab/plot';
import { bytes, seconds, significant, templates } from '@hers/paper/lab/quantities';
import type { ClusterParameters } from './cluster.ts';

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
  const { count, dimension, searches, shards, nodes, few } = data.parameters;
  const figures = new Figures(data);
  const value = (name: string) => figures.value(name);
  const ratio = (name: string) => (figures.has(name) ? value(name).toFixed(2) : '–');
  const parts = partsOf(data);
  const markdown = page(data, 'Several machines', 'The model: one search against the number of nodes', [
    `The same ${templates(count)} templates of ${dimension} dimensions on one plain server and on clusters of ${nodes.join(', ')} nodes with ${shards} shards and three servers of NATS, all processes of one machine with ${data.machine.cores} cores, one after the other in the same run. Each node of a cluster of up to three keeps all shards, and a search asks one node for each. Medians of ${searches} searches over HTTP. CPU is that of the processes that serve, for one search: of a node that only scans, and what the node that the client speaks to takes beyond that. A search of ${templates(few)} templates in the same cluster shows what any search takes.`,
    table(
      [
        '',
        'enrolled a second',
        'search, ms',
        'CPU of a node, ms',
        `of that with ${templates(few)}`,
        'CPU of coordinating, ms',
        'CPU of all nodes, ms',
        'scanned by a node',
      ],
      [
        [
          'server',
          ...['enrol', 'search', 'cpu', 'cpu-few'].map((name) => significant(value(`${name}-server`))),
          '–',
          significant(value('cpu-server')),
          '–',
        ],
        ...nodes.map((each) => [
          `${each} ${each === 1 ? 'node' : 'nodes'}`,
          ...['enrol', 'search', 'cpu-per-node', 'cpu-few-per-node'].map((name) =>
            significant(value(`${name}-${each}`)),
          ),
          each === 1 ? '–' : significant(value(`cpu-coordinating-${each}`)),
          significant(value(`cpu-all-nodes-${each}`)),
          bytes(value(`scanned-per-node-${each}`)),
        ]),
      ],
    ),
    `A search of one node behind the ledger takes ${ratio('search-over-server')} times that of a plain server, and enrolment ${ratio('enrol-over-server')} times as long: every shard writes and syncs what it gets by itself. Three replicas on one machine are three times the writing, on the same disk and the same cores.`,
    `With three nodes the one that scans most scans ${ratio('scanned-share-3')} of the bytes that one alone does, and a node that scans uses ${ratio('work-per-node-3')} times its CPU. Of that, a part does not fall with the number of nodes: every node receives the whole query (${bytes(value('query-bytes'))}) and makes its masks. Without that part it is ${ratio('shared-work-per-node-3')}. The nodes run at the same time on the same ${data.machine.cores} cores, so they hinder each other, and more of them cannot be faster here.`,
    '## A model of many machines',
    'None of this was measured. It takes the figures above, and these steps one after the other, except that scan, answer and decryption go on at once, so the slowest of the three decides:',
    [
      `- the node that a client speaks to sends the query to all others: ${bytes(parts.queryBytes)} over a network of 10 Gbit/s, and ${significant(parts.askMs)} ms of one core, for each of them;`,
      `- every node takes the query: ${significant(parts.queryMs)} ms;`,
      `- every node scans its share: ${significant(parts.templateMicros)} µs of one core for each template, ${CORES} cores a node;`,
      `- the node that the client speaks to takes the responses of the others and passes them on: ${significant(parts.responseBytes)} bytes for each template, over the same network, and ${significant(parts.passNanos)} ns of one core for each byte;`,
      `- the client decrypts on ${CORES} cores, as fast as a node scans.`,
    ].join('\n'),
    modelTable(data),
    `Storage is ${REPLICAS} replicas. What decides is marked: *scan* falls with the number of nodes; *answer* is the response on its way through one node to one client, and no number of nodes makes it shorter; *ask* is the query on its way to the nodes, and grows with them. So the model says where it breaks: ${breaks(data)}, more nodes serve more searches at once, and no single search faster. For ${templates(1e10)} one search brings ${bytes(1e10 * parts.responseBytes)} to the client, and its lists (${LIST_BYTES} bytes a record, fetched at first contact) are ${bytes(1e10 * LIST_BYTES)}: such a gallery has to be searched by partitions, or by several clients that keep a part each.`,
  ]);
  return { markdown, svg: await plot(data) };
}

interface Parts {
  readonly queryBytes: number;
  /** Milliseconds of CPU that it takes to ask another node, and those of a node that is asked. */
  readonly askMs: number;
  readonly queryMs: number;
  /** Microseconds of CPU for a template. */
  readonly templateMicros: number;
  /** Bytes for a template, and nanoseconds of CPU to pass one on. */
  readonly responseBytes: number;
  readonly passNanos: number;
}

/** The clock of processes counts in hundredths of a second: small differences may be nothing. */
const LEAST_MS = 0.1;

function partsOf(data: ClusterData): Parts {
  const { count, few } = data.parameters;
  const figures = new Figures(data);
  const value = (name: string) => (figures.has(name) ? figures.value(name) : 0);
  const shared = figures.value('cpu-server') - figures.value('cpu-few-server');
  return {
    queryBytes: figures.value('query-bytes'),
    askMs: Math.max(0, value('cpu-few-coordinating-3')) / 2,
    queryMs: value('cpu-few-per-node-3') || figures.value('cpu-few-server'),
    templateMicros: (1000 * Math.max(LEAST_MS, shared)) / Math.max(1, count - few),
    responseBytes: figures.value('response-bytes') / count,
    passNanos: value('coordination-per-byte'),
  };
}

interface Modelled {
  readonly ask: number;
  readonly scan: number;
  readonly answer: number;
  readonly search: number;
  readonly decides: string;
  /** Searches of many clients, who speak to all nodes. */
  readonly perSecond: number;
}

/** Seconds of one search. */
function model(data: ClusterData, count: number, nodes: number): Modelled {
  const { queryBytes, askMs, queryMs, templateMicros, responseBytes, passNanos } = partsOf(data);
  const answered = count * responseBytes;
  const asking = (nodes - 1) * askMs * 1e-3;
  const passing = answered * passNanos * 1e-9;
  const sending = ((nodes - 1) * queryBytes + answered) / NETWORK_BYTES_PER_SECOND;
  const ask = Math.max(asking, ((nodes - 1) * queryBytes) / NETWORK_BYTES_PER_SECOND);
  const scan = queryMs * 1e-3 + (count * templateMicros * 1e-6) / (nodes * CORES);
  const decrypt = (count * templateMicros * 1e-6) / CORES;
  const answer = Math.max(decrypt, passing, answered / NETWORK_BYTES_PER_SECOND);
  const [decides] = Object.entries({ ask, scan, answer }).reduce((a, b) => (b[1] > a[1] ? b : a));
  // For each search, all nodes together have nodes × CORES cores for the scan, and nodes × one
  // thread and one network for the rest.
  const thread = asking + passing + nodes * queryMs * 1e-3;
  const busiest = Math.max((count * templateMicros * 1e-6) / CORES, thread, sending);
  return { ask, scan, answer, search: ask + Math.max(scan, answer), decides, perSecond: nodes / busiest };
}

/** From how many nodes on the response takes longer than the scan. */
function breaks(data: ClusterData): string {
  const { scan, answer } = model(data, 1e9, 1);
  const nodes = Math.ceil(scan / answer);
  return nodes <= 1 ? 'at any number of nodes' : `beyond ${nodes} nodes, whatever the gallery`;
}

function modelTable(data: ClusterData): string {
  return table(
    ['templates', 'nodes', 'disk of a node', 'ask', 'scan', 'answer', 'one search', 'searches a second'],
    MODEL_TEMPLATES.flatMap((count) =>
      MODEL_NODES.map((nodes) => {
        const { ask, scan, answer, search, decides, perSecond } = model(data, count, nodes);
        return [
          templates(count),
          String(nodes),
          bytes((REPLICAS * count * TEMPLATE_BYTES) / nodes),
          seconds(ask),
          seconds(scan),
          seconds(answer),
          `${seconds(search)} (${decides})`,
          significant(perSecond),
        ];
      }),
    ),
  );
}

function plot(data: ClusterData): Promise<string> {
  const steps = [3, 10, 30, 100, 300, 1000];
  const points = MODEL_TEMPLATES.flatMap((count) =>
    steps.map((nodes) => {
      return { name: templates(count), nodes, seconds: model(data, count, nodes).search };
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
      y: logAxisOf(points, 'seconds', 'seconds'),
      color: series.color,
    },
    layer: namedLines(
      series.shape,
      names.map((name) => points.findLast((point) => point.name === name)!),
    ),
  });
}
