// Chooses the route of each transfer. A large array that many hosts need whole is scattered over them and gathered there.
// RUN: pathways-opt %s --pw-choose-routes | FileCheck %s

// Hosts 0 to 4 with two devices each; 0 is alone in its island.
pw.machine devices [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] physical [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] hosts [0, 0, 1, 1, 2, 2, 3, 3, 4, 4] islands [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
pw.virtual_devices [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] hosts [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
pw.mesh @one size 2 virtual [0, 1]
pw.mesh @two size 2 virtual [2, 3]
pw.mesh @many size 4 virtual [2, 3, 4, 5]
pw.mesh @first size 4 virtual [2, 3, 4, 5]
pw.mesh @second size 4 virtual [6, 7, 8, 9]

// CHECK-LABEL: pw.program @kinds
pw.program @kinds {
  %0 = pw.arg 0 : !pw.array<f32[8] @one>
  // CHECK: pw.transfer %{{.*}} local 0 bytes
  %1 = pw.transfer %0 : !pw.array<f32[8] @one> to !pw.array<f32[8] @one tiles [2]>
  // One copy crosses, which both devices of the other host share.
  // CHECK: pw.transfer %{{.*}} copy 32 bytes
  %2 = pw.transfer %0 : !pw.array<f32[8] @one> to !pw.array<f32[8] @two>
  // CHECK: pw.transfer %{{.*}} scatter 32 bytes
  %3 = pw.transfer %0 : !pw.array<f32[8] @one> to !pw.array<f32[8] @many tiles [4]>
  // CHECK: pw.transfer %{{.*}} gather 32 bytes
  %4 = pw.transfer %3 : !pw.array<f32[8] @many tiles [4]> to !pw.array<f32[8] @one>
  // CHECK: pw.transfer %{{.*}} reshard 16 bytes
  %5 = pw.transfer %3 : !pw.array<f32[8] @many tiles [4]> to !pw.array<f32[8] @many tiles [4] order [2, 1, 0, 3]>
  // Small: one step, though all of it crosses twice.
  // CHECK: pw.transfer %{{.*}} copy 64 bytes
  %6 = pw.transfer %0 : !pw.array<f32[8] @one> to !pw.array<f32[8] @many>
}

// CHECK-LABEL: pw.program @broadcast
pw.program @broadcast {
  %0 = pw.arg 0 : !pw.array<f32[8, 1048576] @one>
  // CHECK: %[[P:.*]] = pw.transfer %{{.*}} scatter 33554432 bytes : {{.*}} to <f32[8, 1048576] @many tiles [4, 1]>
  // CHECK: pw.transfer %[[P]] gather 33554432 bytes : {{.*}} to <f32[8, 1048576] @many>
  %1 = pw.transfer %0 : !pw.array<f32[8, 1048576] @one> to !pw.array<f32[8, 1048576] @many>
  // No dimension that can be cut evenly: one step.
  // CHECK: pw.transfer %{{.*}} copy 25165800 bytes
  %2 = pw.arg 1 : !pw.array<f32[3145725] @one>
  %3 = pw.transfer %2 : !pw.array<f32[3145725] @one> to !pw.array<f32[3145725] @many>
}

// CHECK-LABEL: pw.program @stages
pw.program @stages {
  // Two hosts have the array, and two others of their island need it: each sends one copy, in one step.
  %0 = pw.arg 0 : !pw.array<f32[8, 1048576] @first>
  // CHECK: pw.transfer %{{.*}} copy 67108864 bytes : {{.*}} to <f32[8, 1048576] @second>
  %1 = pw.transfer %0 : !pw.array<f32[8, 1048576] @first> to !pw.array<f32[8, 1048576] @second>
}
