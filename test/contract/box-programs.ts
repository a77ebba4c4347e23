import { evalInBox, runInBox, type ServedInstance } from './box-client.ts';

/** Runs a program that touches this much memory; returns the signal that killed it, or null. */
export const useMemory = async (box: ServedInstance, megabytes: number): Promise<string | null> => {
  const code = `b = bytearray(${megabytes} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1`;
  return (await runInBox(box, ['python', '-c', code])).signal;
};

/** Forks until EAGAIN; returns how many forks succeeded. */
export const countForks = (box: ServedInstance): Promise<number> =>
  evalInBox(
    box,
    [
      'import errno, os, time',
      'made = []',
      'try:',
      '  while len(made) < 1000:',
      '    pid = os.fork()',
      '    if pid == 0: time.sleep(60); os._exit(0)',
      '    made.append(pid)',
      'except OSError as error: assert error.errno == errno.EAGAIN',
      'for pid in made: os.kill(pid, 9); os.waitpid(pid, 0)',
      'print(len(made))',
    ].join('\n'),
  );

/** Returns how many CPUs three busy programs get together. gVisor does not account for this correctly. */
export const measureCpus = (box: ServedInstance): Promise<number> =>
  evalInBox(
    box,
    [
      'import os, time',
      'start = time.monotonic()',
      'for _ in range(3):',
      '  if os.fork() == 0:',
      '    while time.monotonic() < start + 1: pass',
      '    os._exit(0)',
      'for _ in range(3): os.wait()',
      'used = os.times()',
      'print((used.children_user + used.children_system) / (time.monotonic() - start))',
    ].join('\n'),
  );

/** Returns the names of the network interfaces in a box. */
export const interfaces = (box: ServedInstance): Promise<string[]> =>
  evalInBox(box, 'import json, socket; print(json.dumps([name for _, name in socket.if_nameindex()]))');

/** Fills the disk of a box with files of 4 MiB, and returns the number of the error that ends this. */
export const fillDisk = (box: ServedInstance): Promise<number> => {
  const fill = [
    'i = 0',
    'try:',
    '  while True:',
    "    open(f'/mnt/data/{i}', 'wb').write(b'x' * (1 << 22)); i += 1",
    'except OSError as e: print(e.errno)',
  ];
  return evalInBox<number>(box, fill.join('\n'));
};
