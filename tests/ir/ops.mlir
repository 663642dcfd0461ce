// Every operation is read and written back as it was.
// RUN: pathways-opt %s | pathways-opt | FileCheck %s

// CHECK: pw.mesh @m0 size 2 on [4, 5]
pw.mesh @m0 size 2 on [4, 5]
// CHECK: pw.mesh @m1 size 4 virtual [0, 1, 2, 3]
pw.mesh @m1 size 4 virtual [0, 1, 2, 3]
pw.mesh @m2 size 1
// CHECK: pw.virtual_devices [4, 5, -1, -1] hosts [1, 1, 2, 2]
pw.virtual_devices [4, 5, -1, -1] hosts [1, 1, 2, 2]
// CHECK: pw.machine devices [4, 5] physical [4, 5] hosts [1, 1] islands [0, 0] {distant = 3 : i64}
pw.machine devices [4, 5] physical [4, 5] hosts [1, 1] islands [0, 0] {distant = 3 : i64}
// CHECK: pw.executable @e0 0 "step" on @m0 donates [0] : (!pw.array<f32[4, 8] @m0>, !pw.array<pred[] @m0>) -> (!pw.array<f32[4, 8] @m0>, !pw.array<s32[] @m0>)
pw.executable @e0 0 "step" on @m0 donates [0] : (!pw.array<f32[4, 8] @m0>, !pw.array<pred[] @m0>) -> (!pw.array<f32[4, 8] @m0>, !pw.array<s32[] @m0>)
pw.executable @e1 1 "other" on @m0 : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>

pw.program @twice {
  %0 = pw.arg 0 : !pw.array<f32[4, 8] @m0>
  %1 = pw.compute @e1(%0) : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  %2 = pw.compute @e1(%1) : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  pw.result %2 : !pw.array<f32[4, 8] @m0>
}
// CHECK: pw.program @turn {
pw.program @turn {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  %1 = pw.arg 1 donated : !pw.array<f32[4, 8] @m0>
  %2 = pw.compute @e1(%1) : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  %3 = pw.transfer %0 : !pw.array<pred[] @m0> to !pw.array<pred[] @m2>
  pw.result %2 : !pw.array<f32[4, 8] @m0>
  pw.result %3 : !pw.array<pred[] @m2>
}
// CHECK: pw.program @f {
pw.program @f {
  // CHECK: %[[A:.*]] = pw.arg 0 donated apart : <f32[4, 8] @m0>
  %0 = pw.arg 0 donated apart : !pw.array<f32[4, 8] @m0>
  // CHECK: %[[B:.*]] = pw.arg 1 : <pred[] @m0>
  %1 = pw.arg 1 : !pw.array<pred[] @m0>
  // CHECK: %[[C:.*]]:2 = pw.compute @e0(%[[A]], %[[B]]) : (!pw.array<f32[4, 8] @m0>, !pw.array<pred[] @m0>) -> (!pw.array<f32[4, 8] @m0>, !pw.array<s32[] @m0>)
  %2:2 = pw.compute @e0(%0, %1) : (!pw.array<f32[4, 8] @m0>, !pw.array<pred[] @m0>) -> (!pw.array<f32[4, 8] @m0>, !pw.array<s32[] @m0>)
  // CHECK: %[[D:.*]] = pw.transfer %[[C]]#0 : <f32[4, 8] @m0> to <f32[4, 8] @m1 tiles [2, 2] order [3, 1, 0, 2] memory "pinned_host">
  %3 = pw.transfer %2#0 : !pw.array<f32[4, 8] @m0> to !pw.array<f32[4, 8] @m1 tiles [2, 2] order [3, 1, 0, 2] memory "pinned_host">
  // CHECK: pw.transfer %[[C]]#0 scatter 128 bytes : <f32[4, 8] @m0> to <f32[4, 8] @m1 tiles [4, 1]>
  %4 = pw.transfer %2#0 scatter 128 bytes : !pw.array<f32[4, 8] @m0> to !pw.array<f32[4, 8] @m1 tiles [4, 1]>
  // CHECK: %[[I:.*]] = pw.transfer %[[C]]#1
  %5 = pw.transfer %2#1 : !pw.array<s32[] @m0> to !pw.array<s32[] @m2>
  // CHECK: %[[E:.*]] = pw.host_compute "tokenize" callback 7(%[[I]]) : (!pw.array<s32[] @m2>) -> !pw.array<s64[2] @m1 memory "pinned_host">
  %6 = pw.host_compute "tokenize" callback 7 (%5) : (!pw.array<s32[] @m2>) -> !pw.array<s64[2] @m1 memory "pinned_host">
  // CHECK: pw.host_compute "load" on @e1(%[[C]]#0) : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  %8 = pw.host_compute "load" on @e1 (%2#0) : (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  // CHECK: pw.select %[[I]] among [@e1, @twice](%[[C]]#0) : <s32[] @m2>, (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  %7 = pw.select %5 among [@e1, @twice](%2#0) : !pw.array<s32[] @m2>, (!pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  // CHECK: pw.while %[[P:.*]] do @turn(%[[B]], %[[C]]#0) : <pred[] @m2>, (!pw.array<pred[] @m0>, !pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  %9 = pw.transfer %1 : !pw.array<pred[] @m0> to !pw.array<pred[] @m2>
  %10 = pw.while %9 do @turn(%1, %2#0) : !pw.array<pred[] @m2>, (!pw.array<pred[] @m0>, !pw.array<f32[4, 8] @m0>) -> !pw.array<f32[4, 8] @m0>
  // CHECK: %[[R:.*]]:3 = pw.route 1 groups(%[[D]], %[[I]]) : (!pw.array<f32[4, 8] @m1 tiles [2, 2] order [3, 1, 0, 2] memory "pinned_host">, !pw.array<s32[] @m2>) -> (!pw.array<f32[1, 4, 8] @m2>, !pw.array<s32[1, 4] @m2>, !pw.array<s32[1] @m2>)
  %11:3 = pw.route 1 groups (%3, %5) : (!pw.array<f32[4, 8] @m1 tiles [2, 2] order [3, 1, 0, 2] memory "pinned_host">, !pw.array<s32[] @m2>) -> (!pw.array<f32[1, 4, 8] @m2>, !pw.array<s32[1, 4] @m2>, !pw.array<s32[1] @m2>)
  // CHECK: pw.route back 1 groups(%[[R]]#0, %[[R]]#1) : (!pw.array<f32[1, 4, 8] @m2>, !pw.array<s32[1, 4] @m2>) -> !pw.array<f32[4, 8] @m0>
  %12 = pw.route back 1 groups (%11#0, %11#1) : (!pw.array<f32[1, 4, 8] @m2>, !pw.array<s32[1, 4] @m2>) -> !pw.array<f32[4, 8] @m0>
  // CHECK: pw.result %[[E]] : <s64[2] @m1 memory "pinned_host">
  pw.result %6 : !pw.array<s64[2] @m1 memory "pinned_host">
}

// CHECK: pw.host_program hosts [1, 2] {
pw.host_program hosts [1, 2] {
  // CHECK: pw.execute @e0(argument 0, name 3) to (name 4, result 0) keeping [0] launch name 5
  pw.execute @e0(argument 0, name 3) to (name 4, result 0) keeping [0] launch name 5
  // CHECK: pw.move 0 name 4 to result 1 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
  pw.move 0 name 4 to result 1 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
  // CHECK: pw.alias name 6 of apart argument 1 : !pw.array<f32[4] @m0>
  pw.alias name 6 of apart argument 1 : !pw.array<f32[4] @m0>
  // CHECK: pw.release (name 4, name 6)
  pw.release (name 4, name 6)
  // CHECK: pw.release (argument 1) apart !pw.array<f32[4] @m0>
  pw.release (argument 1) apart !pw.array<f32[4] @m0>
}
