// RUN: pathways-opt %s --pw-eliminate-dead-transfers | FileCheck %s --check-prefix=DEAD
// RUN: pathways-opt %s --pw-eliminate-common-transfers | FileCheck %s --check-prefix=COMMON

pw.mesh @m0 size 2 on [0, 1]
pw.mesh @m1 size 2 on [2, 3]
// Removes a transfer to the array's own place, and an unused chain.
// DEAD-LABEL: pw.program @dead
pw.program @dead {
  // DEAD-NEXT: %[[A:.*]] = pw.arg 0
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  %1 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m0>
  %2 = pw.transfer %1 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
  %3 = pw.transfer %2 : !pw.array<f32[4] @m1> to !pw.array<f32[4] @m0>
  // DEAD-NEXT: pw.result %[[A]]
  pw.result %1 : !pw.array<f32[4] @m0>
  // DEAD-NEXT: }
}

// Transfers an array once to each place; but each transfer back from host memory stays.
// COMMON-LABEL: pw.program @common
pw.program @common {
  // COMMON-NEXT: %[[A:.*]] = pw.arg 0
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // COMMON-NEXT: %[[B:.*]] = pw.transfer %[[A]] : <f32[4] @m0> to <f32[4] @m1>
  %1 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
  %2 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
  // COMMON-NEXT: %[[C:.*]] = pw.transfer %[[A]] {{.*}} tiles [2]>
  %3 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1 tiles [2]>
  // COMMON-NEXT: %[[D:.*]] = pw.transfer %[[B]] {{.*}} memory "pinned_host">
  %4 = pw.transfer %2 : !pw.array<f32[4] @m1> to !pw.array<f32[4] @m1 memory "pinned_host">
  // COMMON-NEXT: %[[E:.*]] = pw.transfer %[[D]]
  %5 = pw.transfer %4 : !pw.array<f32[4] @m1 memory "pinned_host"> to !pw.array<f32[4] @m1>
  // COMMON-NEXT: %[[F:.*]] = pw.transfer %[[D]]
  %6 = pw.transfer %4 : !pw.array<f32[4] @m1 memory "pinned_host"> to !pw.array<f32[4] @m1>
  // COMMON-NEXT: pw.result %[[B]]
  pw.result %2 : !pw.array<f32[4] @m1>
  pw.result %3 : !pw.array<f32[4] @m1 tiles [2]>
  pw.result %5 : !pw.array<f32[4] @m1>
  pw.result %6 : !pw.array<f32[4] @m1>
}
