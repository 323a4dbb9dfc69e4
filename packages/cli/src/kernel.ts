// The kernel that the settings name; with that of `@hers/cuda` where it is installed.

import type { KernelChoice } from '@hers/scan';
import { CommandError, EXIT } from './exit.ts';
import type { Settings } from './settings.ts';

/** Loads `@hers/cuda`: galleries that are opened later scan and rank on a GPU, if there is one. */
async function registerGpu(settings: Settings): Promise<void> {
  const memory = settings.value('deviceMemory');
  try {
    const { registerCuda } = await import('@hers/cuda');
    await registerCuda({ memory: memory === undefined ? undefined : Number(memory) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    if (settings.value('kernel') === 'cuda')
      throw new CommandError(
        EXIT.absent,
        'the kernel cuda needs @hers/cuda, which is not part of this installation',
        'run it in a clone of the repository, or choose another kernel',
      );
  }
}

/** Returns what opens the kernel. Call it before a gallery is opened. */
export async function kernelOpener(
  settings: Settings,
  warn: (message: string) => void,
): Promise<() => Promise<KernelChoice>> {
  const [{ openKernel }] = await Promise.all([import('@hers/scan'), registerGpu(settings)]);
  return () => openKernel({ kernel: settings.value('kernel'), threads: settings.threads, warn });
}
