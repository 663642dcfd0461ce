// Transfers an operand that is elsewhere, or cut in another way, to the executable's place; leaves an operand that fits.
// RUN: pathways-opt %s --pw-insert-transfers --mlir-print-debuginfo | FileCheck %s

pw.mesh @m0 size 2 on [0, 1]
pw.mesh @m1 size 2 on [2, 3]
pw.mesh @m2 size 1 on [2]
pw.executable @e0 0 "f" on @m1 : (!pw.array<f32[4] @m1 tiles [2]>, !pw.array<f32[4] @m1>) -> !pw.array<f32[4] @m1>
// CHECK-LABEL: pw.program @f
pw.program @f {
  // CHECK: %[[A:.*]] = pw.arg 0
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // CHECK: %[[B:.*]] = pw.arg 1
  %1 = pw.arg 1 : !pw.array<f32[4] @m1 memory "pinned_host">
  // CHECK: %[[C:.*]] = pw.transfer %[[A]] : <f32[4] @m0> to <f32[4] @m1 tiles [2]> loc([[LINE:.*]])
  // CHECK: %[[D:.*]] = pw.compute @e0(%[[C]], %[[B]]) : {{.*}} loc([[LINE]])
  %2 = pw.compute @e0(%0, %1) : (!pw.array<f32[4] @m0>, !pw.array<f32[4] @m1 memory "pinned_host">) -> !pw.array<f32[4] @m1> loc(fused<3>["step"("train.py":37:0)])
  // CHECK: %[[E:.*]] = pw.transfer %[[D]] : <f32[4] @m1> to <f32[4] @m1 tiles [2]>
  // CHECK: pw.select {{.*}} among [@e0](%[[E]], %[[D]])
  %3 = pw.arg 2 : !pw.array<s32[] @m2>
  %4 = pw.select %3 among [@e0](%2, %2) : !pw.array<s32[] @m2>, (!pw.array<f32[4] @m1>, !pw.array<f32[4] @m1>) -> !pw.array<f32[4] @m1>
}
