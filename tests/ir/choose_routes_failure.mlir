// RUN: pathways-opt %s --pw-choose-routes --split-input-file --verify-diagnostics

// expected-error@+1 {{the program has no place yet: run pw-place first}}
module {
  pw.virtual_devices [0]
}
// -----
pw.machine devices [0, 1] physical [0, 1] hosts [0, 0] islands [0, 0]
pw.virtual_devices [0, 1] hosts [0, 0]
pw.mesh @m0 size 2 virtual [0, 1]
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[8] @m0>
  // expected-error@+1 {{tile}}
  %1 = pw.transfer %0 : !pw.array<f32[8] @m0> to !pw.array<f32[8] @m0 tiles [2] order [0, 0]>
}
