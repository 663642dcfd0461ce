import assert from "node:assert/strict";
import { test } from "node:test";
import { logsOf, type LogReport, questionOf } from "./logs";

const report: LogReport = {
  names: ["controller", "host0"],
  processes: [
    { name: "controller", cut: false, lines: [["I", "I 12:00:01.000 a.cc:1] first"], ["E", "E 12:00:03.000 a.cc:1] third"], ["E", "  at f()"]] },
    { name: "host0", cut: true, lines: [["W", "W 12:00:02.000 b.cc:1] second"]] },
  ],
};

test("lines of all processes are in the order of their times", () => {
  assert.deepEqual(logsOf(report).map((row) => [row.process, row.text.slice(-7).trim()]), [["controller", "] first"], ["host0", "second"], ["controller", "] third"], ["controller", "at f()"]]);
});

test("a line without a time stays behind the one before it, with its level", () => {
  assert.deepEqual(logsOf(report).at(-1), { process: "controller", level: "E", text: "  at f()" });
});

test("the last lines are kept", () => {
  assert.deepEqual(logsOf(report, 1).map((row) => row.text), ["  at f()"]);
});

test("a filter's text is quoted in the question", () => {
  assert.equal(questionOf({ level: "W", process: "host0", text: "a b&c=d" }), "logs?level=W&process=host0&text=a+b%26c%3Dd&lines=200");
});
