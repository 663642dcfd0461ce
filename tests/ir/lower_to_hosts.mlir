// RUN: pathways-opt %s --pw-lower-to-hosts --split-input-file | FileCheck %s

// A chain over three hosts, two of which have the same part. A donated argument is overwritten if no node needs it later.
pw.virtual_devices [0, 1, 2] hosts [0, 1, 2]
pw.mesh @m0 size 1 virtual [0]
pw.mesh @m1 size 2 virtual [1, 2]
pw.executable @e0 0 "f" on @m0 donates [0] : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
pw.executable @e1 1 "g" on @m1 donates [0] : (!pw.array<f32[4] @m1 tiles [2]>, !pw.array<f32[4] @m1 tiles [2]>) -> !pw.array<f32[4] @m1 tiles [2]>
// CHECK-LABEL: pw.program @chain
pw.program @chain {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  %1 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
  %2 = pw.compute @e0(%1) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
  %3 = pw.transfer %2 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1 tiles [2]>
  %4 = pw.compute @e1(%3, %3) : (!pw.array<f32[4] @m1 tiles [2]>, !pw.array<f32[4] @m1 tiles [2]>) -> !pw.array<f32[4] @m1 tiles [2]>
  pw.result %4 : !pw.array<f32[4] @m1 tiles [2]>
  pw.result %0 : !pw.array<f32[4] @m0>
}
// CHECK:      pw.host_program hosts [0] {
// CHECK-NEXT:   pw.execute @e0(argument 0) to (name 0) keeping [0]
// CHECK-NEXT:   pw.execute @e0(name 0) to (name 1)
// CHECK-NEXT:   pw.move 0 name 1 to name 2 :
// CHECK-NEXT:   pw.release (name 1)
// CHECK-NEXT:   pw.alias result 1 of argument 0 :
// CHECK-NEXT: }
// CHECK:      pw.host_program hosts [1, 2] {
// CHECK-NEXT:   pw.move 0 name 1 to name 2 :
// CHECK-NEXT:   pw.execute @e1(name 2, name 2) to (result 0) keeping [0] launch name 3
// CHECK-NEXT:   pw.release (name 2)
// CHECK-NEXT: }

// -----
// Arguments that come shard by shard get a name. Donated arguments are released after their last use, unused ones at once.
pw.virtual_devices [0, 1] hosts [0, 0]
pw.mesh @m0 size 2 virtual [0, 1]
// CHECK-LABEL: pw.program @arguments
pw.program @arguments {
  %0 = pw.arg 0 donated apart : !pw.array<f32[4] @m0 tiles [2]>
  %1 = pw.arg 1 donated : !pw.array<f32[4] @m0>
  pw.result %0 : !pw.array<f32[4] @m0 tiles [2]>
  pw.result %0 : !pw.array<f32[4] @m0 tiles [2]>
}
// CHECK:      pw.host_program hosts [0] {
// CHECK-NEXT:   pw.alias name 0 of apart argument 0 :
// CHECK-NEXT:   pw.release (argument 0) apart !pw.array<f32[4] @m0 tiles [2]>
// CHECK-NEXT:   pw.release (argument 2)
// CHECK-NEXT:   pw.alias result 0 of name 0 :
// CHECK-NEXT:   pw.alias result 1 of name 0 :
// CHECK-NEXT:   pw.release (name 0)
// CHECK-NEXT: }
