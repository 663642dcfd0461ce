// A table of many rows: only the rows in sight are elements, and they are reused. Sorted by a click on a heading; arrow keys choose a row.

import { h, setClass, setText } from "./dom";

export interface Column<T> {
  title: string;
  hint?: string;
  width: string; // of a grid column
  right?: boolean;
  text: (row: T) => string;
  tip?: (row: T) => string; // what the pointer tells; else the text
  mark?: (row: T) => string; // a class for the cell
  share?: (row: T) => number | null; // a bar behind the text
  swatch?: (row: T) => string; // a colour before the text
  by?: (row: T) => number | string; // for sorting
}

const ROW = 22;
const HEAD = 20;

export class Table<T> {
  readonly element: HTMLElement;
  private readonly body: HTMLElement;
  private readonly filler: HTMLElement;
  private readonly headings: HTMLElement[];
  private readonly pool: HTMLElement[] = [];
  private rows: T[] = [];
  private sorted: T[] = [];
  private order: { column: number; down: boolean } | null = null;
  selected: number | null = null;
  onSelect: (key: number | null) => void = () => undefined;

  constructor(
    label: string,
    private readonly columns: Column<T>[],
    private readonly key: (row: T) => number,
    mostRows: number,
    private readonly nothing: string,
  ) {
    const template = columns.map((one) => one.width).join(" ");
    this.headings = columns.map((column, i) => {
      const heading = h("button", { type: "button", class: column.right ? "right" : "", title: column.hint ?? "" }, column.title);
      heading.addEventListener("click", () => this.sortBy(i));
      return heading;
    });
    const head = h("div", { class: "thead" }, ...this.headings);
    this.filler = h("div", { class: "filler" });
    this.body = h("div", { class: "table", tabindex: "0", role: "listbox", "aria-label": label }, head, this.filler);
    this.body.style.maxHeight = `${mostRows * ROW + HEAD}px`;
    this.body.style.setProperty("--columns", template);
    this.body.addEventListener("scroll", () => this.show());
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    this.element = this.body;
  }

  set(rows: T[]): void {
    this.rows = rows;
    this.sort();
    this.show();
  }

  select(key: number | null, scroll = true): void {
    this.selected = key;
    const index = this.sorted.findIndex((row) => this.key(row) === key);
    if (scroll && index >= 0) {
      const top = index * ROW;
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      if (top + ROW > this.body.scrollTop + this.room) this.body.scrollTop = top + ROW - this.room;
    }
    this.show();
  }

  move(by: number): void {
    const index = this.sorted.findIndex((row) => this.key(row) === this.selected);
    const next = this.sorted[Math.max(0, Math.min(this.sorted.length - 1, index < 0 ? 0 : index + by))];
    if (next !== undefined) this.choose(this.key(next));
  }

  // The height of the rows in sight.
  private get room(): number {
    return Math.max(ROW, this.body.clientHeight - HEAD);
  }

  private choose(key: number | null): void {
    this.select(key);
    this.onSelect(key);
  }

  private onKey(event: KeyboardEvent): void {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.move(by);
  }

  private sortBy(column: number): void {
    if (this.columns[column]!.by === undefined || this.rows.length === 0) return;
    const numbers = typeof this.columns[column]!.by!(this.rows[0]!) === "number";
    if (this.order?.column !== column) this.order = { column, down: numbers };
    else this.order = this.order.down === numbers ? { column, down: !numbers } : null;
    this.headings.forEach((heading, i) => setClass(heading, [this.columns[i]!.right ? "right" : "", this.order?.column === i ? (this.order.down ? "down" : "up") : ""].join(" ").trim()));
    this.sort();
    this.show();
  }

  private sort(): void {
    this.sorted = this.rows;
    if (this.order === null) return;
    const by = this.columns[this.order.column]!.by!;
    const sign = this.order.down ? -1 : 1;
    this.sorted = [...this.rows].sort((a, b) => {
      const [x, y] = [by(a), by(b)];
      return (x < y ? -1 : x > y ? 1 : 0) * sign;
    });
  }

  private show(): void {
    this.filler.style.height = `${Math.max(1, this.sorted.length) * ROW}px`;
    const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - 2);
    const shown = Math.min(this.sorted.length - first, Math.ceil(this.room / ROW) + 4);
    const empty = this.sorted.length === 0;
    while (this.pool.length < Math.max(shown, empty ? 1 : 0)) this.pool.push(this.makeRow());
    this.pool.forEach((element, i) => {
      const row = this.sorted[first + i];
      element.hidden = i >= shown || row === undefined;
      if (!element.hidden) this.fill(element, row!, first + i);
    });
    if (!empty) return;
    const element = this.pool[0]!;
    element.hidden = false;
    element.style.transform = "none";
    setClass(element, "tr nothing");
    Array.from(element.children).forEach((cell, i) => {
      setClass(cell, "");
      (cell as HTMLElement).style.removeProperty("--share");
      setText(cell.lastElementChild!, i === 0 ? this.nothing : "");
      (cell.firstElementChild as HTMLElement).hidden = true;
    });
  }

  private makeRow(): HTMLElement {
    const cells = this.columns.map(() => h("span", {}, h("i"), h("b")));
    const element = h("div", { class: "tr", role: "option" }, ...cells);
    element.addEventListener("click", () => {
      const key = Number(element.dataset.key);
      this.choose(this.selected === key ? null : key);
    });
    this.filler.append(element);
    return element;
  }

  private fill(element: HTMLElement, row: T, index: number): void {
    const key = this.key(row);
    element.dataset.key = String(key);
    element.style.transform = `translateY(${index * ROW}px)`;
    setClass(element, key === this.selected ? "tr selected" : "tr");
    element.setAttribute("aria-selected", String(key === this.selected));
    this.columns.forEach((column, i) => {
      const cell = element.children[i] as HTMLElement;
      const text = column.text(row);
      const share = column.share?.(row) ?? null;
      const swatch = cell.firstElementChild as HTMLElement;
      setText(cell.lastElementChild!, text);
      const tip = column.tip?.(row) ?? text;
      if (cell.title !== tip) cell.title = tip;
      setClass(cell, [column.right ? "right" : "", share === null ? "" : "share", column.mark?.(row) ?? ""].join(" ").trim());
      if (share !== null) cell.style.setProperty("--share", `${Math.round(Math.min(1, share) * 100)}%`);
      swatch.hidden = column.swatch === undefined;
      if (column.swatch) swatch.style.background = column.swatch(row);
    });
  }
}
