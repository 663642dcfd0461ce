// The last lines of the cluster's logs, by level, process and text. They are asked for only while the panel is open. logsOf and questionOf are pure.

import { h, setText } from "./dom";

export type LogReport = { names: string[]; processes: { name: string; lines: [string, string][]; cut: boolean }[] };
export type LogFilter = { level: string; process: string; text: string };
export type LogRow = { process: string; level: string; text: string };

const LINES = 200; // of each process
const ROWS = 400;
const ASK_MS = 2000;
const TIME = /^[DIWE] (\d\d:\d\d:\d\d\.\d\d\d) /;
const LEVELS: [string, string][] = [["D", "all"], ["I", "info and above"], ["W", "warnings and errors"], ["E", "errors"]];

export function questionOf(filter: LogFilter): string {
  return `logs?${new URLSearchParams({ ...filter, lines: String(LINES) })}`;
}

// The lines of all processes by their time of day; a line without a time stays behind the one before it. At most `most`, the last ones.
export function logsOf(report: LogReport, most = ROWS): LogRow[] {
  const rows: { time: string; row: LogRow }[] = [];
  for (const one of report.processes) {
    let time = "";
    for (const [level, text] of one.lines) {
      time = TIME.exec(text)?.[1] ?? time;
      rows.push({ time, row: { process: one.name, level, text } });
    }
  }
  rows.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0)); // stable
  return rows.slice(-most).map((one) => one.row);
}

export class Logs {
  readonly element = h("div", { class: "logs" });
  readonly tools: HTMLElement[];
  private readonly level = h("select", { "aria-label": "level" }, ...LEVELS.map(([value, text]) => h("option", { value }, text)));
  private readonly process = h("select", { "aria-label": "process" }, h("option", { value: "" }, "all processes"));
  private readonly text = h("input", { type: "search", placeholder: "containing", "aria-label": "text", spellcheck: "false" });
  private readonly toggle = h("button", { type: "button", "aria-pressed": "false" }, "show");
  private readonly list = h("ol", {});
  private readonly said = h("p", { class: "quiet" });
  private names = "";
  private shown = "";
  private open = false;
  private round = 0;

  constructor(private readonly ask: (question: string) => Promise<LogReport>, private readonly failed: (error: unknown) => void) {
    this.tools = [this.level, this.process, this.text, this.toggle];
    this.level.value = "I";
    this.element.append(this.said, this.list);
    this.element.hidden = true;
    this.toggle.addEventListener("click", () => this.setOpen(!this.open));
    for (const field of [this.level, this.process, this.text]) field.addEventListener("input", () => this.open && void this.poll());
  }

  private setOpen(open: boolean): void {
    this.open = open;
    this.element.hidden = !open;
    this.toggle.setAttribute("aria-pressed", String(open));
    if (open) void this.poll();
  }

  // Asks until the panel is closed, or another poll has begun.
  private async poll(): Promise<void> {
    const round = ++this.round;
    while (this.open && round === this.round) {
      try {
        const report = await this.ask(questionOf({ level: this.level.value, process: this.process.value, text: this.text.value }));
        if (round !== this.round) return;
        this.take(report);
      } catch (error) {
        setText(this.said, error instanceof Error ? error.message : String(error));
        this.failed(error);
      }
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
      while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
    }
  }

  private take(report: LogReport): void {
    if (report.names.join("\n") !== this.names) {
      this.names = report.names.join("\n");
      const chosen = this.process.value;
      this.process.replaceChildren(h("option", { value: "" }, "all processes"), ...report.names.map((name) => h("option", { value: name }, name)));
      this.process.value = report.names.includes(chosen) ? chosen : "";
    }
    const rows = logsOf(report);
    setText(this.said, rows.length === 0 ? "no such lines" : report.processes.some((one) => one.cut) ? "the last lines; 'pathways logs' has all" : "");
    const key = JSON.stringify(rows);
    if (key === this.shown) return;
    this.shown = key;
    const atEnd = this.list.scrollTop + this.list.clientHeight >= this.list.scrollHeight - 4;
    this.list.replaceChildren(...rows.map((row) => h("li", { class: row.level === "E" ? "bad" : row.level === "W" ? "warn" : row.level === "D" ? "quiet" : "" }, h("b", {}, row.process), ` ${row.text}`)));
    if (atEnd) this.list.scrollTop = this.list.scrollHeight;
  }
}
