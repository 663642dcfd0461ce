import assert from "node:assert/strict";
import { test } from "node:test";
import { type GangReport, GangStore } from "./gangs";

type Ended = GangReport["ended"][number];

function report(now: number, ended: Ended[], underway: GangReport["underway"] = [], missed = 0): GangReport {
  const programs = [
    { id: 1, name: "f", devices: [[0, 3]] as [number, number][] },
    { id: 2, name: "g", devices: [[4, 4]] as [number, number][] },
  ];
  return { now, last: ended.length > 0 ? ended[ended.length - 1]![0] : 0, missed, ended, underway, programs };
}

const spans = (store: GangStore) => store.bars.map((bar) => [bar.start, bar.end]);

test("a computation ends at its report and takes its time", () => {
  const store = new GangStore();
  store.add(report(5000, [[1, 1, 7, 1, 1000, 4000, 2500, 0]]));
  assert.deepEqual(spans(store), [[1500, 4000]]);
  assert.equal(store.bars[0]!.program.name, "f");
  assert.equal(store.last, 1);
});

test("ends that are reported together are laid one after the other", () => {
  const store = new GangStore();
  store.add(report(5000, [[1, 1, 7, 1, 0, 4000, 1000, 0], [2, 2, 7, 1, 0, 4000, 1000, 0], [3, 3, 7, 2, 0, 4000, 1000, 0]]));
  assert.deepEqual(spans(store), [[2000, 3000], [3000, 4000], [3000, 4000]]);
});

test("a computation begins no earlier than its grant, nor than the end of the one before it", () => {
  const store = new GangStore();
  store.add(report(5000, [[1, 1, 7, 1, 3500, 4000, 1000, 0]]));
  assert.deepEqual(spans(store), [[3500, 4000]]);
  store.add(report(6000, [[2, 2, 7, 1, 3600, 4200, 1000, 0]]));
  assert.deepEqual(spans(store)[1], [4000, 4200]);
});

test("a program that the controller has forgotten is no error", () => {
  const store = new GangStore();
  store.add(report(5000, [[1, 1, 7, 0, 0, 4000, 1000, 1]]));
  assert.equal(store.bars[0]!.failed, true);
  assert.deepEqual(store.bars[0]!.program.devices, []);
});

test("the load is the part of the last seconds for which a device computed", () => {
  const store = new GangStore();
  const load = new Float32Array(6);
  store.add(report(10e6, [[1, 1, 7, 1, 8e6, 10e6, 1e6, 0]]));
  store.load(10e6, load);
  for (let device = 0; device < 4; ++device) assert.ok(Math.abs(load[device]! - 1 / 1.75) < 0.01, `${load[device]}`);
  assert.equal(load[4], 0);
  store.load(20e6, load);
  assert.equal(load[0], 0);
});

test("what is under way counts", () => {
  const store = new GangStore();
  const load = new Float32Array(6);
  store.add(report(10e6, [], [[5, 7, 2, 1e6]]));
  store.load(10e6, load);
  assert.deepEqual([load[3], load[4]], [0, 1]);
});

test("old computations are forgotten, and it is noted when some were missed", () => {
  const store = new GangStore();
  store.add(report(5e6, [[1, 1, 7, 1, 0, 4e6, 1e6, 0]]));
  assert.equal(store.missedAt, -Infinity);
  store.add(report(60e6, [[9, 9, 7, 1, 0, 59e6, 1e6, 0]], [], 7));
  assert.deepEqual(store.bars.map((bar) => bar.gang), [9]);
  assert.equal(store.missedAt, 60e6);
});

test("programs are summed up by client and name", () => {
  const store = new GangStore();
  store.add(report(10e6, [[1, 1, 7, 1, 0, 8e6, 1e6, 0], [2, 2, 7, 1, 0, 9e6, 1e6, 0], [3, 3, 8, 2, 0, 10e6, 2e6, 0]]));
  const [first, second] = store.summary(10e6, 10);
  assert.deepEqual([first!.name, first!.client, first!.devices, first!.perSecond, first!.mean, first!.share], ["f", 7, 4, 0.2, 1, 0.8]);
  assert.deepEqual([second!.name, second!.client, second!.share], ["g", 8, 0.2]);
  assert.equal(store.summary(10e6, 10)[0]!.key, first!.key);
  assert.deepEqual(store.summary(30e6, 10), []);
});
