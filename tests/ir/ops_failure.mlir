// Refuses programs that could not run, at the user's line.
// RUN: pathways-opt %s --split-input-file --verify-diagnostics

pw.mesh @m0 size 2 on [4]  // expected-error@-0 {{mesh m0 lists 1 devices of 2}}
// -----
pw.mesh @m0 size 0  // expected-error {{a mesh has at least one device}}
// -----
pw.mesh @m0 size 2 on [4, 4]
pw.executable @e0 0 "f" on @m0 : () -> ()  // expected-error {{program f cannot run on mesh @m0, which has a device twice}}
// -----
pw.executable @e0 0 "f" on @m0 : () -> ()  // expected-error {{there is no mesh @m0}}
// -----
pw.mesh @m0 size 1
pw.executable @e0 0 "f" on @m0 donates [1] : (!pw.array<f32[] @m0>) -> ()  // expected-error {{program f has no argument 1 to take over}}
// -----
pw.mesh @m0 size 1
pw.mesh @m1 size 1
pw.executable @e0 0 "f" on @m0 : (!pw.array<f32[] @m1>) -> ()  // expected-error {{program f runs on mesh @m0 and cannot use '!pw.array<f32[] @m1>'}}
// -----
pw.executable @e0 0 "f" on @m0 : (i32) -> ()  // expected-error {{program f takes 'i32', which is no array}}
// -----
// expected-error@+1 {{there is no element type 'f33'}}
pw.executable @e0 0 "f" on @m0 : (!pw.array<f33[] @m0>) -> ()
// -----
// expected-error@+1 {{an array of 1 dimensions cannot have tiles of 2}}
pw.executable @e0 0 "f" on @m0 : (!pw.array<f32[4] @m0 tiles [2, 2]>) -> ()
// -----
// expected-error@+1 {{tiles are counted from 1}}
pw.executable @e0 0 "f" on @m0 : (!pw.array<f32[4] @m0 tiles [0]>) -> ()
// -----
// expected-error@+1 {{an order of tiles needs tiles}}
pw.executable @e0 0 "f" on @m0 : (!pw.array<f32[4] @m0 order [0]>) -> ()
// -----
pw.mesh @m0 size 2
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[8] @m0 tiles [4]>  // expected-error {{mesh @m0 has 2 devices for 4 tiles}}
}
// -----
pw.mesh @m0 size 4
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[8] @m0 tiles [2]>  // expected-error {{which of the 4 devices hold which of 2 tiles? An order has to say}}
}
// -----
pw.mesh @m0 size 4
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[8] @m0 tiles [2] order [0, 1]>  // expected-error {{the order names tiles for 2 of 4 devices}}
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 1 : !pw.array<f32[8] @m0>  // expected-error {{arguments are numbered in order, and this is argument 0}}
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  %1 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[2, 2] @m0>  // expected-error {{a transfer cannot make f32[2, 2] of f32[4]}}
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  %1 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>  // expected-error {{there is no executable @e0}}
}
// -----
pw.mesh @m0 size 1
pw.executable @e0 0 "step" on @m0 : (!pw.array<f32[5] @m0>) -> !pw.array<f32[4] @m0>
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // expected-error@+1 {{argument 0 of program step is f32[4] where f32[5] is expected}}
  %1 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
}
// -----
pw.mesh @m0 size 1
pw.executable @e0 0 "step" on @m0 : () -> !pw.array<f32[4] @m0>
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // expected-error@+1 {{program step takes 0 arguments, not 1}}
  %1 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
}
// -----
pw.mesh @m0 size 1
pw.executable @e0 0 "step" on @m0 : () -> !pw.array<f32[4] @m0>
pw.program @f {
  // expected-error@+1 {{result 0 of program step is '!pw.array<f32[4] @m0>', not '!pw.array<s32[4] @m0>'}}
  %1 = pw.compute @e0() : () -> !pw.array<s32[4] @m0>
}
// -----
pw.mesh @m0 size 1
pw.executable @e0 0 "step" on @m0 : () -> !pw.array<f32[4] @m0>
pw.program @f {
  // expected-error@+1 {{program step has 1 results, not 0}}
  pw.compute @e0() : () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[] @m0>
  // expected-error@+1 {{the index is a scalar integer, not f32[]}}
  pw.select %0 among [@e0]() : !pw.array<f32[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 2
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{the index has one shard, not 2}}
  pw.select %0 among [@e0]() : !pw.array<s32[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{there is no executable @e0}}
  pw.select %0 among [@e0]() : !pw.array<s32[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{branch f does not stand before the program}}
  pw.select %0 among [@f]() : !pw.array<s32[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.mesh @m1 size 1
pw.program @b {
  %0 = pw.arg 0 : !pw.array<s32[] @m1>
  pw.result %0 : !pw.array<s32[] @m1>
}
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{input 0 is '!pw.array<s32[] @m0>' where branch b takes '!pw.array<s32[] @m1>'}}
  pw.select %0 among [@b](%0) : !pw.array<s32[] @m0>, (!pw.array<s32[] @m0>) -> !pw.array<s32[] @m1>
}
// -----
pw.mesh @m0 size 1
pw.program @b {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  pw.result %0 : !pw.array<s32[] @m0>
}
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{result 0 of branch b is '!pw.array<s32[] @m0>', not '!pw.array<f32[] @m0>'}}
  pw.select %0 among [@b](%0) : !pw.array<s32[] @m0>, (!pw.array<s32[] @m0>) -> !pw.array<f32[] @m0>
}
// -----
pw.mesh @m0 size 1
pw.program @b {
}
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{branch b takes 0 arrays and makes 0, not 1 and 0}}
  pw.select %0 among [@b](%0) : !pw.array<s32[] @m0>, (!pw.array<s32[] @m0>) -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[] @m0>
  // expected-error@+1 {{the predicate is a scalar pred, not s32[]}}
  pw.while %0 do @b() : !pw.array<s32[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  // expected-error@+1 {{there is no program @b}}
  pw.while %0 do @b() : !pw.array<pred[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 2
pw.program @b {
}
pw.program @f {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  // expected-error@+1 {{the predicate has one shard, not 2}}
  pw.while %0 do @b() : !pw.array<pred[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @b {
}
pw.program @f {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  // expected-error@+1 {{branch b takes 0 arrays and makes 0, not 0 and 1}}
  pw.while %0 do @b() : !pw.array<pred[] @m0>, () -> ()
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  // expected-error@+1 {{carried array 0 is '!pw.array<pred[] @m0>' before a turn and '!pw.array<s32[] @m0>' after it}}
  %1 = pw.while %0 do @b(%0) : !pw.array<pred[] @m0>, (!pw.array<pred[] @m0>) -> !pw.array<s32[] @m0>
}
// -----
pw.mesh @m0 size 1
pw.program @f {
  %0 = pw.arg 0 : !pw.array<pred[] @m0>
  // expected-error@+1 {{a loop with 0 inputs carries no 1 arrays}}
  %1 = pw.while %0 do @b() : !pw.array<pred[] @m0>, () -> !pw.array<s32[] @m0>
}
// -----
pw.mesh @m0 size 2
pw.program @f {
  // expected-error@+1 {{a host's function makes the same for all devices, and cannot make '!pw.array<f32[4] @m0 tiles [2]>'}}
  %0 = pw.host_compute "g"() : () -> !pw.array<f32[4] @m0 tiles [2]>
}
// -----
pw.mesh @m0 size 2
pw.program @f {
  %0 = pw.arg 0 : !pw.array<f32[4] @m0>
  // expected-error@+1 {{an operand of a host's function has one shard, not 2}}
  pw.host_compute "g"(%0) : (!pw.array<f32[4] @m0>) -> ()
}
// -----
pw.mesh @m0 size 2
pw.program @f {
  // expected-error@+1 {{there is no executable @e0}}
  pw.host_compute "g" on @e0 () : () -> ()
}
// -----
pw.mesh @m0 size 2
pw.executable @e0 0 "g" on @m0 : (!pw.array<f32[4] @m0 tiles [2]>) -> ()
pw.program @f {
  %0 = pw.arg 0 : !pw.array<s32[4] @m0 tiles [2]>
  // expected-error@+1 {{argument 0 of program g is s32[4] where f32[4] is expected}}
  pw.host_compute "g" on @e0 (%0) : (!pw.array<s32[4] @m0 tiles [2]>) -> ()
}
// -----
// expected-error@+1 {{the lists of a machine have an entry for each of its 2 devices}}
pw.machine devices [4, 5] physical [4] hosts [1, 1] islands [0, 0]
// -----
// expected-error@+1 {{the machine has a device twice}}
pw.machine devices [4, 4] physical [4, 4] hosts [1, 1] islands [0, 0]
// -----
// expected-error@+1 {{each virtual device is on one host}}
pw.virtual_devices [4, 5] hosts [1]
// -----
pw.mesh @m0 size 1
pw.host_program hosts [0] {
  pw.execute @e0() to ()  // expected-error {{there is no executable @e0}}
}
// -----
pw.host_program hosts [0] {
  pw.release (value 3)  // expected-error {{a slot is an argument, a result or a name, not 'value'}}
}
