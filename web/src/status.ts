// The status report (docs/status.md), and what the page shows of two of them: the later one, and an earlier one of the same controller. Pure.

export interface Memory {
  used_bytes: number;
  peak_bytes: number;
  limit_bytes: number; // 0: no limit
  used_by_client: Record<string, number>;
}

export interface Device {
  id: number;
  host: number;
  island: number;
  local_ordinal: number;
  kind: string;
  memory?: Memory; // absent: its host did not answer
}

export interface Machine {
  clock_ahead_seconds?: number;
  files_open: number;
  files_limit: number; // 0: none
  shared_memory_free_bytes: number;
  shared_memory_total_bytes: number; // 0: not known
  disk?: string;
  disk_free_bytes?: number;
  disk_total_bytes?: number; // 0: not known
  certificate_seconds?: number; // until it ends; absent: it has none
}

// A command that waits for its user's quota of memory.
export interface QuotaWait {
  client: number;
  user: string;
  position: number;
  why: string;
}

export interface Host {
  id: number;
  name: string;
  island: number;
  state: "up" | "silent" | "busy" | "away" | string;
  pid: number;
  data_address: string;
  seconds_since_heard: number;
  ops_in_flight: number;
  bytes_sent: number;
  bytes_received: number;
  health?: { commands_parked: number; executions_waiting: number; memory_waits: number; quota_waits?: QuotaWait[] };
  metrics?: { launches: number; device_seconds: number; spilled_bytes: number };
  machine?: Machine; // absent: it has not been examined
  devices: number[];
}

export interface Client {
  id: number;
  description: string;
  user?: string;
  seconds_connected: number;
  arrays: number;
  array_bytes: number;
  executables: number;
  weight: number;
  priority: number;
  device_seconds: number;
  waiting: number;
  running: number;
  completed: number;
}

export interface Hang {
  computation: number;
  client: number;
  program: string;
  seconds: number;
  predicted_seconds?: number;
  hosts: { name: string; state: string }[];
  stacks: { host: string; process: string; text: string }[]; // of the threads on which it may wait, when it was named
}

export interface ClusterEvent {
  seconds_ago: number;
  kind: string;
  text: string;
}

export interface Slice {
  id: number;
  client: number;
  state: string;
  count: number;
  position?: number; // if it waits
  waits_for?: string;
}

export interface Report {
  version: string;
  pid: number;
  uptime_seconds: number;
  state: string;
  expected_hosts: number;
  joined_hosts: number;
  platform: string;
  policy: string;
  granted: number;
  machine?: Machine; // the controller's
  certificates?: Record<string, number>; // seconds until the controller's end, by name
  islands: { id: number; name: string; hosts: number[] }[];
  hosts: Host[];
  devices: Device[];
  clients: Client[];
  waiting_clients?: { description: string; user: string; position: number; why: string }[];
  slices: Slice[];
  hangs: Hang[];
  events: ClusterEvent[];
}

export interface HostView {
  host: Host;
  island: string;
  devices: number;
  load: number | null; // the share of its devices' time that computations took between the reports; null: not known
  used: number;
  limit: number; // 0: none
  parked: number;
  bytesPerSecond: number; // between the controller and the host
}

export interface ClientView {
  client: Client;
  entitled: number | null; // its share of device time by its weight, among the clients with work; null: it has none
  got: number | null; // its share of the device time that all clients got; null: nobody got any
  perSecond: number;
  deviceBytes: number; // on devices
}

export interface View {
  report: Report;
  hosts: HostView[];
  clients: ClientView[];
  load: number | null; // of all devices
  used: number;
  limit: number;
  unowned: number; // bytes on devices of clients that are gone
  queue: number;
  running: number;
  grantedPerSecond: number;
}

// The increase of a counter each second. A counter that is smaller than before has begun anew.
export function rate(now: number, before: number | undefined, seconds: number): number {
  const increase = now - (before ?? 0);
  return (increase >= 0 ? increase : now) / seconds;
}

function byId<T extends { id: number }>(all: T[] | undefined): Map<number, T> {
  return new Map((all ?? []).map((one) => [one.id, one]));
}

function viewHost(host: Host, before: Host | undefined, island: string, devices: Device[], seconds: number): HostView {
  let used = 0;
  let limit = 0;
  for (const device of devices) {
    used += device.memory?.used_bytes ?? 0;
    limit += device.memory?.limit_bytes ?? 0;
  }
  const known = host.metrics !== undefined && before?.metrics !== undefined;
  const busy = known ? rate(host.metrics!.device_seconds, before!.metrics!.device_seconds, seconds) / Math.max(1, devices.length) : null;
  const bytesPerSecond = before ? rate(host.bytes_sent, before.bytes_sent, seconds) + rate(host.bytes_received, before.bytes_received, seconds) : 0;
  const load = busy === null ? null : Math.min(1, busy);
  return { host, island, devices: devices.length, load, used, limit, parked: host.health?.commands_parked ?? 0, bytesPerSecond };
}

function viewClients(now: Report, before: Map<number, Client>, seconds: number, onDevices: Map<number, number>): ClientView[] {
  const got = new Map(now.clients.map((one) => [one.id, rate(one.device_seconds, before.get(one.id)?.device_seconds, seconds)]));
  const busy = now.clients.filter((one) => got.get(one.id)! > 0 || one.waiting > 0 || one.running > 0);
  const weights = busy.reduce((sum, one) => sum + one.weight, 0);
  const allTime = [...got.values()].reduce((sum, one) => sum + one, 0);
  return now.clients.map((client) => ({
    client,
    entitled: busy.includes(client) && weights > 0 ? client.weight / weights : null,
    got: allTime > 0 ? got.get(client.id)! / allTime : null,
    perSecond: rate(client.completed, before.get(client.id)?.completed, seconds),
    deviceBytes: onDevices.get(client.id) ?? 0,
  }));
}

// `before` may be of an earlier controller: counters then begin anew.
export function compare(now: Report, before: Report | null): View {
  const same = before !== null && before.pid === now.pid && now.uptime_seconds > before.uptime_seconds;
  const old = same ? before : null;
  const seconds = old ? now.uptime_seconds - old.uptime_seconds : Math.max(now.uptime_seconds, 1e-3);
  const islands = new Map(now.islands.map((island) => [island.id, island.name]));
  const devicesOf = new Map<number, Device[]>();
  const onDevices = new Map<number, number>();
  for (const device of now.devices) {
    const list = devicesOf.get(device.host);
    if (list) list.push(device);
    else devicesOf.set(device.host, [device]);
    for (const [client, bytes] of Object.entries(device.memory?.used_by_client ?? {})) {
      onDevices.set(Number(client), (onDevices.get(Number(client)) ?? 0) + bytes);
    }
  }
  const oldHosts = byId(old?.hosts);
  const hosts = now.hosts.map((host) => viewHost(host, oldHosts.get(host.id), islands.get(host.island) ?? "", devicesOf.get(host.id) ?? [], seconds));
  const known = hosts.filter((one) => one.load !== null);
  const devices = known.reduce((sum, one) => sum + one.devices, 0);
  const used = hosts.reduce((sum, one) => sum + one.used, 0);
  const clients = viewClients(now, byId(old?.clients), seconds, onDevices);
  return {
    report: now,
    hosts,
    clients,
    load: devices > 0 ? known.reduce((sum, one) => sum + one.load! * one.devices, 0) / devices : null,
    used,
    limit: hosts.reduce((sum, one) => sum + one.limit, 0),
    unowned: Math.max(0, used - clients.reduce((sum, one) => sum + one.deviceBytes, 0)),
    queue: now.clients.reduce((sum, one) => sum + one.waiting, 0),
    running: now.clients.reduce((sum, one) => sum + one.running, 0),
    grantedPerSecond: rate(now.granted, old?.granted, seconds),
  };
}

const DAY = 86400;
const MIB = 2 ** 20;

// What is wrong with a machine, in words; the bounds are those of `pathways doctor`.
export function faultsOf(machine: Machine): string[] {
  const found: string[] = [];
  const ahead = machine.clock_ahead_seconds ?? 0;
  if (Math.abs(ahead) > 1) found.push(`its clock is ${Math.abs(ahead).toFixed(1)} s ${ahead > 0 ? "ahead of" : "behind"} the controller's`);
  const free = machine.disk_free_bytes ?? 0;
  const total = machine.disk_total_bytes ?? 0;
  if (total > 0 && (free < 1024 * MIB || free < 0.03 * total)) found.push(`its disk is nearly full (${machine.disk ?? ""})`);
  if (machine.shared_memory_total_bytes > 0 && machine.shared_memory_free_bytes < 256 * MIB) found.push("its shared memory (/dev/shm) is nearly full");
  if (machine.files_limit > 0 && machine.files_open > 0.7 * machine.files_limit) found.push(`${machine.files_open} of at most ${machine.files_limit} files are open`);
  if (machine.certificate_seconds !== undefined && machine.certificate_seconds < 4 * DAY) found.push(ending(machine.certificate_seconds));
  return found;
}

function ending(seconds: number): string {
  return seconds > 0 ? `its certificate ends in ${(seconds / DAY).toFixed(1)} days` : "its certificate has ended";
}

// What is wrong with machines and certificates: [fault, where].
export function machineFaults(report: Report): [string, string][] {
  const found: [string, string][] = report.hosts.flatMap((host) => (host.machine ? faultsOf(host.machine) : []).map((fault): [string, string] => [fault, host.name]));
  if (report.machine) found.push(...faultsOf({ ...report.machine, clock_ahead_seconds: 0 }).map((fault): [string, string] => [fault, "the controller"]));
  for (const [name, seconds] of Object.entries(report.certificates ?? {})) {
    if (seconds < (name === "authority" ? 90 : 4) * DAY) found.push([ending(seconds), `the ${name}`]);
  }
  return found;
}

export interface Wait {
  who: string;
  position: number;
  why: string;
}

// Returns the clients and commands that wait for the quotas of their users, and the slices that wait for devices.
export function waits(report: Report): Wait[] {
  return [
    ...(report.waiting_clients ?? []).map((one) => ({ who: one.description, position: one.position, why: one.why })),
    ...report.slices.filter((one) => one.state === "waiting").map((one) => ({ who: `slice ${one.id} of client ${one.client}`, position: one.position ?? 0, why: `waits for ${one.waits_for ?? "devices"}` })),
    ...report.hosts.flatMap((host) => (host.health?.quota_waits ?? []).map((one) => ({ who: `client ${one.client} on ${host.name}`, position: one.position, why: one.why }))),
  ];
}

// A client that waits, and gets less than half of its share.
export function isShort(one: ClientView): boolean {
  return one.client.waiting > 0 && one.entitled !== null && one.got !== null && one.got < one.entitled / 2;
}
