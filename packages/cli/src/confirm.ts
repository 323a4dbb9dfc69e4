// A question before something that cannot be taken back.

import type { Context } from './context.ts';
import { CommandError, EXIT, Interrupted } from './exit.ts';

export async function confirmed(
  { environment: { stdin, stderr, signal } }: Context,
  yes: boolean,
  question: string,
): Promise<void> {
  if (yes) return;
  if (!stdin.isTTY || !stderr.isTTY)
    throw new CommandError(
      EXIT.usage,
      'this is to be confirmed, and there is no terminal to ask',
      'add --yes if it is meant',
    );
  const { confirm, isCancel } = await import('@clack/prompts');
  const answer = await confirm({
    message: question,
    initialValue: false,
    input: stdin,
    output: stderr,
    signal,
    withGuide: false,
  });
  if (isCancel(answer)) throw new Interrupted('SIGINT');
  if (!answer) throw new CommandError(EXIT.no, 'nothing was done', 'answer yes, or add --yes, if it is meant');
}
