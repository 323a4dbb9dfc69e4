// Scans and ranks on an NVIDIA GPU.

import { registerRanking } from '@hers/client/ranking';
import { type Kernel, registerKernel } from '@hers/scan';
import { HersError } from '@hers/scheme';
import { isCudaBuilt } from './kernel-addon.ts';
import { openRankingAddon } from './ranking-addon.ts';

export { CudaKernel, type CudaLoadOptions, type CudaOptions } from './kernel.ts';

export interface RegisterOptions {
  /**
   * Bytes of the gallery that each GPU may hold, by default as many as fit. The rest goes through a
   * GPU in turns, or is scanned by the CPU.
   */
  readonly memory?: number | undefined;
}

/**
 * Registers the kernel `cuda` and its ranking. They are used where `npm run build:cuda` was run and
 * a GPU works; a search that asks for `cuda` elsewhere says what is missing.
 *
 * @throws {HersError} INVALID_ARGUMENT if `memory` is not a number of bytes.
 */
export async function registerCuda({ memory }: RegisterOptions = {}): Promise<void> {
  if (memory !== undefined && !(Number.isSafeInteger(memory) && memory >= 0))
    throw new HersError('INVALID_ARGUMENT', 'the memory of a device is a number of bytes');
  registerKernel('cuda', {
    isAutomatic: isCudaBuilt,
    async open(warn, openCpu) {
      const [{ CudaKernel }, { SplitKernel }] = await Promise.all([import('./kernel.ts'), import('./split.ts')]);
      const onDevice = (device: number): Kernel => {
        const openOther = async () => {
          try {
            return onDevice(device + 1);
          } catch {
            return openCpu(); // there is no other device
          }
        };
        return new SplitKernel(CudaKernel.open({ device }), { memory, openOther, warn });
      };
      return onDevice(0);
    },
  });
  const addon = openRankingAddon();
  if (!addon) return;
  const { CudaRanking } = await import('./ranking.ts');
  registerRanking((key) => new CudaRanking(addon, key()));
}
