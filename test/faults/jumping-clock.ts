/**
 * Loaded into a process before its program (`node --import`): its clock jumps ahead by six hours at SIGUSR2, and at the next one
 * back to six hours ago. Only the time of day: what measures how long something takes is another clock.
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
