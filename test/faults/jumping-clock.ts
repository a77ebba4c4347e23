/**
 * Preloaded into a process (`node --import`): its clock jumps six hours ahead at the first SIGUSR2, and to six hours behind at
 * the next. Only the time of day jumps, not the monotonic clock.
 */
const jumpMs = 6 * 3_600_000;
const RealDate = Date;
let offsetMs = 0;

const now = () => RealDate.now() + offsetMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args, newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as object,
  apply: () => new RealDate(now()).toString(),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});

process.on('SIGUSR2', () => {
  offsetMs = offsetMs > 0 ? -jumpMs : jumpMs;
});
