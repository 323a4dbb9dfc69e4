// Starts, watches, stops and kills servers in their own processes.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Memory of a process without mapped files, which the system can drop at any time. */
export function anonymousBytes(pid: number | 'self' = 'self'): number {
  try {
    return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) * 1024;
  } catch {
    return pid === 'self' ? process.memoryUsage().rss : 0;
  }
}

/** Returns the CPU milliseconds of a process, which the system counts in hundredths of a second. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
}

export interface ServiceProcessOptions {
  readonly port?: number;
  readonly limits?: object;
  /** The token file; without one, no token is needed. */
  readonly tokens?: string;
  /** Where the audit log goes. */
  readonly audit?: string;
  /** A file for its standard error: its bugs, and its last output. */
  readonly log?: string;
  /** The largest heap in MiB. By default Node decides by the memory of the machine. */
  readonly heapMiB?: number;
}

export class ServiceProcess {
  readonly url: string;
  /** The port that only moves bytes. */
  readonly line: number;
  /** How it ended: `exit 0`, `SIGKILL`. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, { url, line }: { url: string; line: number }) {
    this.#child = child;
    this.url = url;
    this.line = line;
    this.ended = new Promise((resolve) =>
      child.once('exit', (code, signal) => resolve(signal === null ? `exit ${code}` : signal)),
    );
  }

  static async start(folder: string, options: ServiceProcessOptions = {}): Promise<ServiceProcess> {
    const { log, heapMiB, port = 0, limits = {}, tokens, audit } = options;
    const file = fileURLToPath(new URL('./service-child.ts', import.meta.url));
    const given = JSON.stringify({ port, limits, tokens, audit, logs: log !== undefined });
    const flags = ['--expose-gc', ...(heapMiB === undefined ? [] : [`--max-old-space-size=${heapMiB}`])];
    const said = log === undefined ? undefined : openSync(log, 'a');
    const child = spawn(process.execPath, [...flags, file, folder, given], {
      stdio: ['ignore', 'pipe', said ?? 'inherit', 'ipc'],
    });
    if (said !== undefined) closeSync(said);
    let text = '';
    for await (const piece of child.stdout!) {
      text += piece;
      if (text.includes('\n')) return new ServiceProcess(child, JSON.parse(text));
    }
    throw new Error(`the server did not start: ${text}`);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get bytes(): number {
    return anonymousBytes(this.pid);
  }

  /** Its memory after a garbage collection. */
  async settled(): Promise<NodeJS.MemoryUsage> {
    const answer = once(this.#child, 'message');
    this.#child.send('settle');
    return (await answer)[0] as NodeJS.MemoryUsage;
  }

  /** CPU milliseconds it has used; 0 if the system does not say. */
  get cpuMs(): number {
    try {
      return cpuMs(this.pid);
    } catch {
      return 0;
    }
  }

  async #end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(signal);
    await ended;
  }

  /** In order: running requests finish. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  /** At once, as a power cut would. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }
}
