// The passes, in the order of the pipeline. One file each, in passes/.
#ifndef PATHWAYS_IR_PASSES_TD
#define PATHWAYS_IR_PASSES_TD

include "mlir/Pass/PassBase.td"

class Pw_Pass<string name> : Pass<name, "::mlir::ModuleOp">;

def AssignVirtualDevices : Pw_Pass<"pw-assign-virtual-devices"> {
  let summary = "Number the devices of the program, and say of each mesh which of them it has";
  let description = [{
    Meshes that name the same device of the client share a virtual device. A mesh that names none gets virtual devices of its own.
    From here on the program is the same whatever devices the client holds, but for one operation, `pw.virtual_devices`.
  }];
}

def InsertTransfers : Pw_Pass<"pw-insert-transfers"> {
  let summary = "Bring every operand to where, and cut as, its executable wants it";
}

def EliminateDeadTransfers : Pw_Pass<"pw-eliminate-dead-transfers"> {
  let summary = "Remove transfers that nobody uses, and those to where the array already is";
}

def EliminateCommonTransfers : Pw_Pass<"pw-eliminate-common-transfers"> {
  let summary = "Move an array once to each place";
  let description = [{
    Transfers between kinds of memory are left alone: who moves an array to host memory and back, twice, does so to have device memory free
    in between.
  }];
}

def Place : Pw_Pass<"pw-place"> {
  let summary = "Say on which host each virtual device is, by `pw.machine`";
  let description = [{
    Virtual devices that the client has not chosen go, mesh by mesh, to the least used devices of one island; among islands where these are
    used alike, of the one with which the mesh exchanges most bytes. An error where a computation would need one physical device twice, or a device is not there.
  }];
}

def ChooseRoutes : Pw_Pass<"pw-choose-routes"> {
  let summary = "Choose how each transfer is done, by what it costs on the network";
  let description = [{
    The cost of a step is the bytes of the busiest host, in or out, dearer between islands, and a latency. Where all of an
    array goes to several hosts, two steps may cost less than one: its parts are scattered over the hosts, which then gather them
    from each other, so that the source sends everything once only.
  }];
}

def LowerToHosts : Pw_Pass<"pw-lower-to-hosts"> {
  let summary = "Write one list of steps for each group of hosts with the same part";
  let description = [{
    Names arrays, lets executables take over what is not needed any more, and releases the rest after its last use. The
    `pw.program` stays, for its arguments and results.
  }];
}

#endif  // PATHWAYS_IR_PASSES_TD
