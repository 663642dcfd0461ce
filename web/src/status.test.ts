import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, compare, type Host, isShort, type Machine, machineFaults, rate, type Report, waits } from "./status";

function host(id: number, seconds: number | null, more: Partial<Host> = {}): Host {
  const metrics = seconds === null ? undefined : { launches: 1, device_seconds: seconds, spilled_bytes: 0 };
  return { id, name: `host${id}`, island: 0, state: "up", pid: 1, data_address: "", seconds_since_heard: 0, ops_in_flight: 0, bytes_sent: 0, bytes_received: 0, metrics, devices: [], ...more };
}

function client(id: number, seconds: number, more: Partial<Client> = {}): Client {
  return { id, description: "", seconds_connected: 1, arrays: 0, array_bytes: 0, executables: 0, weight: 1, priority: 0, device_seconds: seconds, waiting: 1, running: 0, completed: 0, ...more };
}

function report(uptime: number, more: Partial<Report> = {}): Report {
  return {
    version: "1", pid: 1, uptime_seconds: uptime, state: "formed", expected_hosts: 1, joined_hosts: 1, platform: "cpu", policy: "share", granted: 0,
    islands: [{ id: 0, name: "a", hosts: [1] }], hosts: [], devices: [], clients: [], slices: [], hangs: [], events: [], ...more,
  };
}

const device = (id: number, on: number, used: number, byClient: Record<string, number> = {}) => ({
  id, host: on, island: 0, local_ordinal: 0, kind: "cpu", memory: { used_bytes: used, peak_bytes: used, limit_bytes: 100, used_by_client: byClient },
});

test("the load of a host is the increase of its device time over that of its devices", () => {
  const devices = [device(0, 1, 10), device(1, 1, 0)];
  const view = compare(report(12, { hosts: [host(1, 7)], devices }), report(10, { hosts: [host(1, 5)], devices }));
  assert.equal(view.hosts[0]!.load, 0.5);
  assert.equal(view.load, 0.5);
  assert.equal(view.used, 10);
  assert.equal(view.limit, 200);
});

test("a host that did not answer has no load, and the others count", () => {
  const devices = [device(0, 1, 10), device(1, 2, 0)];
  const view = compare(report(12, { hosts: [host(1, 7), host(2, null)], devices }), report(10, { hosts: [host(1, 5), host(2, 4)], devices }));
  assert.equal(view.hosts[1]!.load, null);
  assert.equal(view.load, 1);
});

test("shares are those of the clients with work", () => {
  const now = [client(1, 3, { weight: 3 }), client(2, 1), client(3, 0, { waiting: 0 })];
  const view = compare(report(12, { clients: now }), report(10, { clients: now.map((one) => ({ ...one, device_seconds: 0 })) }));
  assert.deepEqual(view.clients.map((one) => [one.entitled, one.got]), [[0.75, 0.75], [0.25, 0.25], [null, 0]]);
  assert.equal(view.queue, 2);
  assert.ok(!isShort(view.clients[0]!));
});

test("a client that waits and gets less than half of its share is short", () => {
  const now = [client(1, 9), client(2, 1)];
  const view = compare(report(12, { clients: now }), report(10, { clients: now.map((one) => ({ ...one, device_seconds: 0 })) }));
  assert.deepEqual(view.clients.map(isShort), [false, true]);
});

test("memory that no client owns is counted as such", () => {
  const view = compare(report(1, { hosts: [host(1, 0)], devices: [device(0, 1, 60, { "4": 40 })], clients: [client(4, 0)] }), null);
  assert.equal(view.clients[0]!.deviceBytes, 40);
  assert.equal(view.unowned, 20);
});

test("clients, slices and commands that wait are in one list", () => {
  const health = { commands_parked: 1, executions_waiting: 0, memory_waits: 1, quota_waits: [{ client: 4, user: "ada", position: 1, why: "the quota of memory" }] };
  const waiting_clients = [{ description: "train.py", user: "ada", position: 2, why: "the quota of sessions" }];
  const slices = [{ id: 1, client: 4, state: "placed", count: 2 }, { id: 2, client: 4, state: "waiting", count: 1, position: 1, waits_for: "1 device" }];
  const found = waits(report(1, { hosts: [host(1, 0, { health }), host(2, 0)], waiting_clients, slices }));
  assert.deepEqual(found.map((one) => [one.who, one.position]), [["train.py", 2], ["slice 2 of client 4", 1], ["client 4 on host1", 1]]);
  assert.equal(found[1]!.why, "waits for 1 device");
  assert.deepEqual(waits(report(1)), []);
});

test("another controller's counters are not compared", () => {
  const view = compare(report(2, { pid: 2, granted: 10 }), report(100, { granted: 1000 }));
  assert.equal(view.grantedPerSecond, 5);
  assert.equal(rate(3, 10, 1), 3);
});

test("faults of machines and certificates that end are named with their place", () => {
  const well: Machine = { clock_ahead_seconds: 0.2, files_open: 10, files_limit: 100, shared_memory_free_bytes: 2 ** 30, shared_memory_total_bytes: 2 ** 31, disk: "/home", disk_free_bytes: 9e9, disk_total_bytes: 1e11, certificate_seconds: 2e6 };
  const of = (more: Partial<Machine>) => machineFaults(report(1, { hosts: [host(1, 0, { machine: { ...well, ...more } })] }));
  assert.deepEqual(of({}), []);
  assert.deepEqual(of({ clock_ahead_seconds: -7.25 }), [["its clock is 7.3 s behind the controller's", "host1"]]);
  assert.deepEqual(of({ disk_free_bytes: 5 }), [["its disk is nearly full (/home)", "host1"]]);
  assert.deepEqual(of({ disk_free_bytes: 2e9, disk_total_bytes: 1e11 }).length, 1);
  assert.deepEqual(of({ shared_memory_free_bytes: 0, files_open: 80 }).length, 2);
  assert.deepEqual(of({ certificate_seconds: -1 }), [["its certificate has ended", "host1"]]);
  assert.deepEqual(machineFaults(report(1, { hosts: [host(1, 0)], machine: { ...well, disk_free_bytes: 0 } })), [["its disk is nearly full (/home)", "the controller"]]);
  assert.deepEqual(machineFaults(report(1, { certificates: { authority: 86400 * 89, controller: 86400 * 6, page: 86400 } })).map(([, where]) => where), ["the authority", "the page"]);
});
