// The computations of the timeline: what the controller tells (pathways/controller/cluster/observation/gang_report.h), kept for the last seconds, and placed in time. Pure.
//
// The controller knows when a computation was granted, when the last of its hosts had reported its end, and for how long it kept its devices busy. Hosts
// report several ends together. So a computation is drawn as ending at its report, or where the next one of its devices begins, if that is earlier.

export interface GangReport {
  now: number; // microseconds, as all times
  last: number;
  missed: number;
  ended: [number, number, number, number, number, number, number, number][]; // number, gang, client, program, granted, done, busy, failed
  underway: [number, number, number, number][]; // gang, client, program, granted
  programs: { id: number; name: string; devices: [number, number][] }[];
}

export interface Program {
  name: string;
  devices: [number, number][]; // first and last
}

export interface Bar {
  gang: number;
  client: number;
  program: Program;
  start: number;
  end: number;
  failed: boolean;
}

export interface Underway {
  gang: number;
  client: number;
  program: Program;
  granted: number;
}

// What ran in the last seconds, by client and name.
export interface ProgramView {
  key: number; // for the page: the same while the page is open
  name: string;
  client: number;
  devices: number; // of the last one
  perSecond: number;
  mean: number; // seconds
  share: number; // of the device time of all
}

const FORGOTTEN: Program = { name: "(forgotten)", devices: [] };
const KEPT_US = 35e6;
const MOST_BARS = 120_000;
const BUCKET_US = 250_000;
const BUCKETS = 8; // load is that of the last two seconds

export class GangStore {
  bars: Bar[] = []; // in the order of their ends
  underway: Underway[] = [];
  last = 0;
  missedAt = -Infinity; // when records were last missed
  // Where the last bar of a device ends, by the first device of each range: programs mostly share their sets of devices.
  readonly ends = new Map<number, number>();
  private readonly programs = new Map<number, Program>();
  private readonly keys = new Map<string, number>();
  private busy = new Float32Array(0); // microseconds: of each device, in each bucket
  private bucket = 0;

  // Takes a report; returns the bars that are new.
  add(report: GangReport): Bar[] {
    for (const one of report.programs) this.programs.set(one.id, { name: one.name || "(unnamed)", devices: one.devices });
    if (report.missed > 0 && this.last > 0) this.missedAt = report.now;
    this.last = report.last;
    const added = this.place(report.ended);
    for (const bar of added) {
      this.bars.push(bar);
      this.count(bar);
    }
    this.underway = report.underway.map(([gang, client, program, granted]) => ({ gang, client, program: this.program(program), granted }));
    this.forget(report.now);
    return added;
  }

  private program(id: number): Program {
    return this.programs.get(id) ?? FORGOTTEN;
  }

  private place(ended: GangReport["ended"]): Bar[] {
    const next = new Map<number, number>();
    const bars: Bar[] = [];
    for (let i = ended.length - 1; i >= 0; --i) {
      const [, gang, client, id, granted, done, busy, failed] = ended[i]!;
      const program = this.program(id);
      let end = done;
      let floor = granted;
      for (const [first] of program.devices) {
        end = Math.min(end, next.get(first) ?? Infinity);
        floor = Math.max(floor, this.ends.get(first) ?? 0);
      }
      const start = Math.max(end - busy, Math.min(floor, end));
      for (const [first] of program.devices) next.set(first, start);
      bars.push({ gang, client, program, start, end, failed: failed !== 0 });
    }
    bars.reverse();
    for (const bar of bars) {
      for (const [first] of bar.program.devices) this.ends.set(first, Math.max(bar.end, this.ends.get(first) ?? 0));
    }
    return bars;
  }

  // Adds a bar to the load of its devices, spread over the buckets that it touches.
  private count(bar: Bar): void {
    const from = Math.max(bar.start, (this.bucket - BUCKETS + 1) * BUCKET_US);
    for (let bucket = Math.floor(from / BUCKET_US); bucket * BUCKET_US < bar.end; ++bucket) {
      this.advance(bucket);
      const share = Math.min(bar.end, (bucket + 1) * BUCKET_US) - Math.max(from, bucket * BUCKET_US);
      for (const [first, last] of bar.program.devices) {
        this.reserve(last);
        for (let device = first; device <= last; ++device) this.busy[device * BUCKETS + (bucket % BUCKETS)]! += share;
      }
    }
  }

  private reserve(device: number): void {
    if ((device + 1) * BUCKETS <= this.busy.length) return;
    const larger = new Float32Array(Math.max(256, 2 * (device + 1)) * BUCKETS);
    larger.set(this.busy);
    this.busy = larger;
  }

  private advance(bucket: number): void {
    if (bucket <= this.bucket) return;
    for (let fresh = Math.max(this.bucket + 1, bucket - BUCKETS + 1); fresh <= bucket; ++fresh) {
      for (let i = fresh % BUCKETS; i < this.busy.length; i += BUCKETS) this.busy[i] = 0;
    }
    this.bucket = bucket;
  }

  private forget(now: number): void {
    const old = now - KEPT_US;
    let gone = Math.max(0, this.bars.length - MOST_BARS);
    while (gone < this.bars.length && this.bars[gone]!.end < old) ++gone;
    if (gone > 0) this.bars.splice(0, gone);
    if (this.programs.size < 5000) return;
    const used = new Set([...this.bars, ...this.underway].map((one) => one.program));
    for (const [id, program] of this.programs) if (!used.has(program)) this.programs.delete(id);
  }

  // Returns what ran in the `seconds` before `now`, what took most device time first.
  summary(now: number, seconds: number): ProgramView[] {
    const found = new Map<string, ProgramView & { ended: number; busy: number; deviceTime: number }>();
    let all = 0;
    for (let i = this.bars.length - 1; i >= 0 && this.bars[i]!.end >= now - seconds * 1e6; --i) {
      const { client, program, start, end } = this.bars[i]!;
      const name = `${client} ${program.name}`;
      let one = found.get(name);
      if (one === undefined) {
        const devices = program.devices.reduce((sum, [first, last]) => sum + last - first + 1, 0);
        if (!this.keys.has(name)) this.keys.set(name, this.keys.size);
        found.set(name, (one = { key: this.keys.get(name)!, name: program.name, client, devices, perSecond: 0, mean: 0, share: 0, ended: 0, busy: 0, deviceTime: 0 }));
      }
      ++one.ended;
      one.busy += end - start;
      one.deviceTime += (end - start) * one.devices;
      all += (end - start) * one.devices;
    }
    for (const one of found.values()) {
      one.perSecond = one.ended / seconds;
      one.mean = one.busy / one.ended / 1e6;
      one.share = all > 0 ? one.deviceTime / all : 0;
    }
    return [...found.values()].sort((a, b) => b.share - a.share);
  }

  // Returns the share of the last seconds for which each device computed, until `now`; `into` is indexed by device.
  load(now: number, into: Float32Array): void {
    const until = Math.floor(now / BUCKET_US);
    this.advance(until);
    const from = (until - BUCKETS + 1) * BUCKET_US;
    const most = now - from;
    for (let device = 0; device < into.length; ++device) {
      let sum = 0;
      if ((device + 1) * BUCKETS <= this.busy.length) for (let i = 0; i < BUCKETS; ++i) sum += this.busy[device * BUCKETS + i]!;
      into[device] = sum;
    }
    const seen = new Set<number>();
    for (const one of this.underway) {
      for (const [first, last] of one.program.devices) {
        if (seen.has(first)) continue;
        seen.add(first);
        const since = Math.max(from, one.granted, this.ends.get(first) ?? 0);
        for (let device = first; device <= Math.min(last, into.length - 1); ++device) into[device]! += Math.max(0, now - since);
      }
    }
    for (let device = 0; device < into.length; ++device) into[device] = Math.min(1, into[device]! / most);
  }
}
