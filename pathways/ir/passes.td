// The passes, in the order of the pipeline. Each has its own file in passes/.
#ifndef PATHWAYS_IR_PASSES_TD
#define PATHWAYS_IR_PASSES_TD

include "mlir/Pass/PassBase.td"

class Pw_Pass<string name> : Pass<name, "::mlir::ModuleOp">;

def AssignVirtualDevices : Pw_Pass<"pw-assign-virtual-devices"> {
  let summary = "Number the devices of the program, and list the numbers in each mesh";
  let description = [{
    Meshes that name the same device of the client share a virtual device. A mesh that names no devices gets virtual devices of its own.
    After this pass, only `pw.virtual_devices` depends on the devices that the client named.
  }];
}

def InsertTransfers : Pw_Pass<"pw-insert-transfers"> {
  let summary = "Transfer each operand to the devices and tiles that its executable expects";
}

def EliminateDeadTransfers : Pw_Pass<"pw-eliminate-dead-transfers"> {
  let summary = "Remove transfers without users, and transfers that change nothing";
}

def EliminateCommonTransfers : Pw_Pass<"pw-eliminate-common-transfers"> {
  let summary = "Merge transfers of the same array to the same placement";
  let description = [{
    The pass keeps all transfers between kinds of memory. A program that moves an array to host memory and back twice does so to free
    device memory in between.
  }];
}

def Place : Pw_Pass<"pw-place"> {
  let summary = "Map virtual devices to the devices and hosts of `pw.machine`";
  let description = [{
    The pass keeps the devices that the client named. For the other virtual devices of each mesh, it takes the least used devices of one
    island: the island where these devices are least used, and among equals the one with which the mesh exchanges most bytes.

    Errors: `pw.machine` lacks a device of the client, no island has enough devices for a mesh, or a computation would use one physical
    device twice.
  }];
}

def ChooseRoutes : Pw_Pass<"pw-choose-routes"> {
  let summary = "Choose the cheapest route on the network for each transfer";
  let description = [{
    The cost of a step is the number of bytes that the busiest host sends or receives, plus `latency_bytes`. Bytes between islands count
    `distant` times. If several hosts need a whole array, two steps may cost less than one: the source scatters parts of the array
    over the hosts, and the hosts gather the parts from each other. The source then sends each byte only once.
  }];
}

def LowerToHosts : Pw_Pass<"pw-lower-to-hosts"> {
  let summary = "Write one list of steps for each group of hosts that run the same steps";
  let description = [{
    The pass gives each array a slot. An executable takes over an input that it donates if this is the input's last use. Other
    intermediate arrays and donated arguments are released after their last use. The `pw.program` remains in the module: the exporter
    reads its arguments and results.
  }];
}

#endif  // PATHWAYS_IR_PASSES_TD
