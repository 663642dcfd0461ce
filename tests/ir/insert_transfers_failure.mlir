// A transfer can change the place of an array, not its type.
// RUN: not pathways-opt %s --pw-insert-transfers 2>&1 | FileCheck %s
// CHECK: train.py:37:0{{.*}}error: argument 0 of program f is s32[4] where f32[4] is expected

pw.mesh @m0 size 2 on [0, 1]
pw.mesh @m1 size 2 on [2, 3]
pw.executable @e0 0 "f" on @m1 : (!pw.array<f32[4] @m1 tiles [2]>) -> ()
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[4] @m0>
  pw.compute @e0(%0) : (!pw.array<s32[4] @m0>) -> () loc("train.py":37:0)
}
