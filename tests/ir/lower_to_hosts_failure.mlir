// RUN: pathways-opt %s --pw-lower-to-hosts --split-input-file --verify-diagnostics

// expected-error@+1 {{there is no program that has a place: run pw-place first}}
module {
  pw.virtual_devices [0]
}
// -----
pw.virtual_devices [0, 1] hosts [0, 0]
pw.mesh @m0 size 1 virtual [0]
pw.mesh @m1 size 1 virtual [1]
pw.executable @e0 0 "f" on @m1 : (!pw.array<f32[4] @m1>) -> ()
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // expected-error@+1 {{an input is not where the executable runs: run pw-insert-transfers first}}
  pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> ()
}
// -----
pw.virtual_devices [0] hosts [0]
pw.mesh @m0 size 1 virtual [0]
pw.program @f {
  // expected-error@+1 {{pw.host_compute waits for a value: the controller cuts a program there into parts, which can be lowered}}
  pw.host_compute "tokenize"() : () -> ()
}
// -----
pw.virtual_devices [0] hosts [0]
pw.mesh @m0 size 1 virtual [0]
pw.program @f {
  // expected-error@+1 {{pw.route waits for a value: the controller cuts a program there into parts, which can be lowered}}
  pw.route 1 groups () : () -> ()
}
// -----
pw.virtual_devices [0] hosts [0]
pw.mesh @m0 size 1 virtual [0]
pw.executable @e0 0 "f" on @m0 : () -> ()
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{pw.select waits for a value: the controller cuts a program there into parts, which can be lowered}}
  pw.select %0 among [@e0]() : !pw.array<s32[] @m0>, () -> ()
}
// -----
pw.virtual_devices [0] hosts [0]
// expected-error@+1 {{a program with branches is cut into parts before it is lowered}}
pw.program @b0 {
}
pw.program @f {
}
