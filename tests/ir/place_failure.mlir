// RUN: pathways-opt %s --pw-place --split-input-file --verify-diagnostics

pw.machine devices [0] physical [0] hosts [0] islands [0]
// expected-error@+1 {{the machine has no device 7}}
pw.virtual_devices [7]
// -----
// A computation cannot run on two virtual devices that are one.
pw.machine devices [1048576, 1048577] physical [0, 0] hosts [0, 0] islands [0, 0]
pw.virtual_devices [1048576, 1048577]
pw.mesh @m0 size 2 virtual [0, 1]
// expected-error@+1 {{program step cannot run: its devices 1048576 and 1048577 are both on physical device 0}}
pw.executable @e0 0 "step" on @m0 : () -> ()
// -----
pw.machine devices [0, 1] physical [0, 1] hosts [0, 1] islands [0, 1]
pw.virtual_devices [-1, -1]
// expected-error@+1 {{no island has 2 devices for mesh m0}}
pw.mesh @m0 size 2 virtual [0, 1]
// -----
// expected-error@+1 {{there is no pw.machine to place the program on}}
module {
  pw.virtual_devices [0]
}
// -----
// expected-error@+1 {{there is no pw.virtual_devices: assign them first}}
module {
  pw.machine devices [0] physical [0] hosts [0] islands [0]
}
