// A line between a client and a server on this machine that is as slow as one of the world: so many
// bits a second in each direction, and so long for a round trip.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export interface LineOptions {
  readonly bitsPerSecond: number;
  readonly roundTripMs: number;
}

/** Bytes on their way in one direction before the sender has to wait. */
const MOST_WAITING = 2 ** 18;

export class SlowLine {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Listens on a port of its own, and forwards to that of a server. */
  static async to(port: number, options: LineOptions): Promise<SlowLine> {
    const server = createServer({ noDelay: true });
    const line = new SlowLine(server);
    server.on('connection', (near) => {
      const far = connect({ port, host: '127.0.0.1', noDelay: true });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        line.#sockets.add(from);
        from.on('close', () => {
          line.#sockets.delete(from);
          to.destroy();
        });
        from.on('error', () => to.destroy());
        carry(from, to, options);
      }
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return line;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/**
 * A piece leaves when all before it have, at the speed of the line, and is there half a trip later.
 */
function carry(from: Socket, to: Socket, { bitsPerSecond, roundTripMs }: LineOptions): void {
  const pieces: { readonly piece: Buffer; readonly at: number }[] = [];
  let free = 0;
  let waiting = 0;
  let isWaiting = false;
  // One timer for all: timers of different lengths keep no order.
  const wait = () => {
    if (isWaiting || pieces.length === 0) return;
    isWaiting = true;
    setTimeout(deliver, Math.max(0, pieces[0]!.at - performance.now()));
  };
  const deliver = () => {
    isWaiting = false;
    while (pieces.length > 0 && pieces[0]!.at <= performance.now()) {
      const { piece } = pieces.shift()!;
      waiting -= piece.length;
      to.write(piece);
    }
    if (waiting <= MOST_WAITING) from.resume();
    wait();
  };
  from.on('data', (piece: Buffer) => {
    const now = performance.now();
    free = Math.max(now, free) + (8000 * piece.length) / bitsPerSecond;
    pieces.push({ piece, at: free + roundTripMs / 2 });
    waiting += piece.length;
    if (waiting > MOST_WAITING) from.pause();
    wait();
  });
}
