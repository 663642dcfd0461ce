// Devices that the client named stay; the others go to the least used ones, in the island with which most is exchanged.
// RUN: pathways-opt %s --pw-place | FileCheck %s

pw.machine devices [0, 1, 2, 3, 1048576] physical [0, 1, 2, 3, 2] hosts [0, 0, 1, 1, 1] islands [0, 0, 1, 1, 1]
// CHECK: pw.virtual_devices [1048576, 3, 0] hosts [1, 1, 0]
pw.virtual_devices [1048576, -1, -1]
pw.mesh @m0 size 1 virtual [0]
pw.mesh @m1 size 1 virtual [1]
pw.mesh @m2 size 1 virtual [2]
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  %1 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
}
