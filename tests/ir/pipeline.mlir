// Lowers a program without places to hosts in one run.
// RUN: pathways-opt %s --pw-portable --pw-lower | FileCheck %s

pw.machine devices [0, 1, 2, 3] physical [0, 1, 2, 3] hosts [0, 0, 1, 1] islands [0, 0, 1, 1]
pw.mesh @a size 2
pw.mesh @b size 2
pw.executable @e0 0 "encode" on @a : (!pw.array<f32[8] @a tiles [2]>) -> !pw.array<f32[8] @a tiles [2]>
pw.executable @e1 1 "decode" on @b : (!pw.array<f32[8] @b tiles [2]>) -> !pw.array<f32[8] @b tiles [2]>
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[8] @a>
  %1 = pw.compute @e0(%0) : (!pw.array<f32[8] @a>) -> !pw.array<f32[8] @a tiles [2]>
  %2 = pw.compute @e1(%1) : (!pw.array<f32[8] @a tiles [2]>) -> !pw.array<f32[8] @b tiles [2]>
  %3 = pw.compute @e1(%1) : (!pw.array<f32[8] @a tiles [2]>) -> !pw.array<f32[8] @b tiles [2]>
  pw.result %2 : !pw.array<f32[8] @b tiles [2]>
  pw.result %3 : !pw.array<f32[8] @b tiles [2]>
}
// CHECK: pw.virtual_devices [0, 1, 2, 3] hosts [0, 0, 1, 1]
// CHECK: pw.machine
// CHECK-COUNT-2: = pw.transfer
// CHECK-NOT: = pw.transfer
// CHECK:      pw.host_program hosts [0] {
// CHECK-NEXT:   pw.move 0 argument 0 to name 0 :
// CHECK-NEXT:   pw.execute @e0(name 0) to (name 1)
// CHECK-NEXT:   pw.release (name 0)
// CHECK-NEXT:   pw.move 1 name 1 to name 2 :
// CHECK-NEXT:   pw.release (name 1)
// CHECK-NEXT: }
// CHECK:      pw.host_program hosts [1] {
// CHECK-NEXT:   pw.move 1 name 1 to name 2 :
// CHECK-NEXT:   pw.execute @e1(name 2) to (result 0)
// CHECK-NEXT:   pw.execute @e1(name 2) to (result 1)
// CHECK-NEXT:   pw.release (name 2)
// CHECK-NEXT: }
