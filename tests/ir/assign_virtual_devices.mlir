// Meshes that name the same devices share virtual ones; a mesh that names none gets its own.
// RUN: pathways-opt %s --pw-assign-virtual-devices | FileCheck %s

// CHECK: pw.virtual_devices [4, 5, 7, -1, -1]
// CHECK: pw.mesh @m0 size 2 virtual [0, 1]
pw.mesh @m0 size 2 on [4, 5]
// CHECK: pw.mesh @m1 size 2 virtual [1, 2]
pw.mesh @m1 size 2 on [5, 7]
// CHECK: pw.mesh @m2 size 2 virtual [3, 4]
pw.mesh @m2 size 2
