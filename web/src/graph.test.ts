import assert from "node:assert/strict";
import { test } from "node:test";
import { type GraphNode, hostsOf, layersOf, titleOf } from "./graph";

const node = (inputs: number[], more: Partial<GraphNode> = {}): GraphNode => ({ kind: "compute", name: "f", at: "", devices: 1, hosts: ["h0"], inputs, ...more });

test("a node stands one column after the last of its inputs", () => {
  assert.deepEqual(layersOf([node([]), node([0]), node([0]), node([1, 2]), node([0, 3])]), [0, 1, 1, 2, 3]);
});

test("an input that is not before its node is overlooked", () => {
  assert.deepEqual(layersOf([node([1]), node([7, 1, 0])]), [0, 1]);
});

test("a node without a name has that of its kind", () => {
  assert.equal(titleOf(node([], { kind: "transfer", name: "" })), "transfer");
  assert.equal(titleOf(node([])), "f");
});

test("many hosts are counted", () => {
  assert.equal(hostsOf(node([], { hosts: ["a", "b"] })), "a, b");
  assert.equal(hostsOf(node([], { hosts: ["a", "b", "c", "d", "e"] })), "a, b, c and 2 more");
});
