// The operations of the dialect: declarations, then programs, then host programs. Most of docs/ir.md is generated from them.
#ifndef PATHWAYS_IR_OPS_TD
#define PATHWAYS_IR_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "pathways/ir/dialect.td"

class Pw_Op<string mnemonic, list<Trait> traits = []> : Op<Pw_Dialect, mnemonic, traits>;
// An operation on arrays. Its verifier checks that the meshes of its types exist and are large enough.
class Pw_ArrayOp<string mnemonic, list<Trait> traits = []>
    : Pw_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

//===-- Declarations that programs refer to

def Pw_MeshOp : Pw_Op<"mesh", [Symbol]> {
  let summary = "a list of devices";
  let description = [{
    `on` lists the devices that the client named, by the client's device ids. Without it, `pw-place` chooses the devices.
    `pw-assign-virtual-devices` replaces `on` by `virtual`, a list of positions in `pw.virtual_devices`.

    ```mlir
    pw.mesh @m0 size 2 on [4, 5]
    pw.mesh @m1 size 2
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$size, OptionalAttr<DenseI32ArrayAttr>:$devices,
                   OptionalAttr<DenseI32ArrayAttr>:$virtual_devices);
  let assemblyFormat = "$sym_name `size` $size (`on` $devices^)? (`virtual` $virtual_devices^)? attr-dict";
  let hasVerifier = 1;
}

def Pw_ExecutableOp : Pw_Op<"executable", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the input and output types of a compiled module";
  let description = [{
    The module itself is opaque to the dialect: `number` is its index in the program's list of executables, and `label` is its name. It
    runs on all devices of a mesh at once. `donates` lists the arguments whose memory it takes over.

    ```mlir
    pw.executable @e0 0 "step" on @m0 donates [0] : (!pw.array<f32[4] @m0>) -> (!pw.array<f32[4] @m0>)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$number, StrAttr:$label, FlatSymbolRefAttr:$mesh,
                   OptionalAttr<DenseI32ArrayAttr>:$donates, TypeAttrOf<FunctionType>:$type);
  let assemblyFormat = "$sym_name $number $label `on` $mesh (`donates` $donates^)? attr-dict `:` $type";
  let hasVerifier = 1;
}

def Pw_VirtualDevicesOp : Pw_Op<"virtual_devices"> {
  let summary = "the devices of the program";
  let description = [{
    Each virtual device has one entry: the client's device id, or -1 if the client named no device. `pw-place` replaces each -1 by a device
    that it chooses, and adds the host of each device.

    ```mlir
    pw.virtual_devices [4, 5, -1, -1]
    pw.virtual_devices [4, 5, 6, 7] hosts [1, 1, 2, 2]
    ```
  }];
  let arguments = (ins DenseI32ArrayAttr:$devices, OptionalAttr<DenseI32ArrayAttr>:$hosts);
  let assemblyFormat = "$devices (`hosts` $hosts^)? attr-dict";
  let hasVerifier = 1;
}

def Pw_MachineOp : Pw_Op<"machine"> {
  let summary = "the current state of the cluster: device mapping and network costs";
  let description = [{
    Entry `i` of each list describes one device known to clients: its id, its physical device, its host and its island. `latency_bytes` is
    the fixed cost of a step between hosts, expressed in bytes. `distant` is the cost of a byte between islands, relative to a byte
    inside an island.

    ```mlir
    pw.machine devices [4, 5] physical [4, 5] hosts [1, 1] islands [0, 0]
    ```
  }];
  let arguments = (ins DenseI32ArrayAttr:$devices, DenseI32ArrayAttr:$physical, DenseI32ArrayAttr:$hosts, DenseI32ArrayAttr:$islands,
                   DefaultValuedAttr<I64Attr, "1 << 20">:$latency_bytes, DefaultValuedAttr<I64Attr, "2">:$distant);
  let assemblyFormat = "`devices` $devices `physical` $physical `hosts` $hosts `islands` $islands attr-dict";
  let hasVerifier = 1;
}

//===-- Programs

def Pw_ProgramOp : Pw_Op<"program", [Symbol, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "the dataflow graph of the user's function, or of a branch in it";
  let description = [{
    ```mlir
    pw.program @f {
      %0 = pw.arg 0 : !pw.array<f32[4] @m0>
      %1 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
      pw.result %1 : !pw.array<f32[4] @m0>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Pw_ArgOp : Pw_ArrayOp<"arg", [HasParent<"ProgramOp">]> {
  let summary = "an argument of the program";
  let description = [{
    Arguments are numbered in order. `donated`: the caller gives the array up. `apart`: the caller passes one array for each shard.

    ```mlir
    %0 = pw.arg 0 donated apart : !pw.array<f32[4] @m0>
    ```
  }];
  let arguments = (ins I32Attr:$number, UnitAttr:$donated, UnitAttr:$apart);
  let results = (outs Pw_Array:$value);
  let assemblyFormat = "$number (`donated` $donated^)? (`apart` $apart^)? attr-dict `:` type($value)";
}

def Pw_ComputeOp : Pw_ArrayOp<"compute", [HasParent<"ProgramOp">]> {
  let summary = "one run of an executable, on all devices of its mesh";
  let description = [{
    Operands have the element types and shapes of the executable's parameters. They may have another placement: `pw-insert-transfers`
    moves them. The result types are equal to the executable's.

    ```mlir
    %1:2 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> (!pw.array<f32[4] @m0>, !pw.array<f32[] @m0>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$executable, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = "$executable `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Pw_TransferOp : Pw_ArrayOp<"transfer", [HasParent<"ProgramOp">, Pure]> {
  let summary = "copy an array to another placement";
  let description = [{
    The result has the same elements on other devices, in other tiles, or in another kind of memory. `pw-choose-routes` adds a route and
    the number of bytes that cross between hosts. The routes: `local` (no bytes cross), `copy` (the tiles stay the same), `scatter`
    (into more tiles), `gather` (into fewer tiles), `reshard` (into the same number of other tiles).

    ```mlir
    %1 = pw.transfer %0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1 tiles [2]>
    %2 = pw.transfer %0 scatter 8 bytes : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1 tiles [2]>
    ```
  }];
  let arguments = (ins Pw_Array:$input, OptionalAttr<StrAttr>:$route, DefaultValuedAttr<I64Attr, "0">:$bytes);
  let results = (outs Pw_Array:$output);
  let assemblyFormat = "$input `` custom<Route>($route, $bytes) attr-dict `:` type($input) `to` type($output)";
  let hasVerifier = 1;
}

def Pw_HostComputeOp : Pw_ArrayOp<"host_compute", [HasParent<"ProgramOp">]> {
  let summary = "call a Python function, in the client's process or on the hosts of devices";
  let description = [{
    `function` is the function's name in messages. With `on`, the hosts of the executable's mesh each run it, on their shards; its types are
    those of the executable. Otherwise the client runs it: `callback` is the client's number for it, each operand has one shard, and results
    are replicated over the devices of their mesh. The controller cuts a client's program into parts at such nodes, and lowers only the
    parts (pathways/program/cut.h). `pw-lower-to-hosts` rejects the nodes themselves.

    ```mlir
    %1 = pw.host_compute "tokenize" callback 7 (%0) : (!pw.array<u8[64] @m0>) -> !pw.array<s32[16] @m0>
    %2 = pw.host_compute "load" on @e0 (%1) : (!pw.array<s32[16] @m0>) -> !pw.array<f32[16, 4] @m0>
    ```
  }];
  let arguments = (ins StrAttr:$function, OptionalAttr<I64Attr>:$callback, OptionalAttr<FlatSymbolRefAttr>:$executable,
                   Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = [{
    $function (`callback` $callback^)? (`on` $executable^)? `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def Pw_RouteOp : Pw_ArrayOp<"route", [HasParent<"ProgramOp">]> {
  let summary = "move rows between hosts to where values say";
  let description = [{
    Without `back`, the inputs are the source rows, and for each row its expert. The outputs are the rows of each group of experts, and maybe the
    slots and counts of each group. With `back`, the inputs are the rows and slots of each group, and the output is the rows where they came from
    (proto/pathways/v1/program.proto). The controller cuts a client's program into parts at such nodes, and lowers only the parts
    (pathways/program/cut.h). `pw-lower-to-hosts` rejects the nodes themselves.

    ```mlir
    %2 = pw.route 1 groups (%0, %1) : (!pw.array<f32[8, 4] @m0 tiles [2, 1]>, !pw.array<s32[8] @m0 tiles [2]>) -> !pw.array<f32[2, 8, 4] @m1 tiles [2, 1, 1]>
    ```
  }];
  let arguments = (ins UnitAttr:$back, I32Attr:$groups, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = [{
    (`back` $back^)? $groups `groups` `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def Pw_SelectOp : Pw_ArrayOp<"select", [HasParent<"ProgramOp">]> {
  let summary = "run one of several branches, chosen by a value";
  let description = [{
    `index` is a scalar integer of one shard. When its value is known, branch number `index` runs on the inputs. A branch is an
    executable, or a program that stands before this one. All branches have the same inputs and outputs. The resources that the node needs
    depend on the branch, so the controller dispatches it only once the index is known. The controller cuts a client's program into parts
    at such nodes, and lowers only the parts (pathways/program/cut.h). `pw-lower-to-hosts` rejects the nodes themselves.

    ```mlir
    %2 = pw.select %0 among [@e0, @b0](%1) : !pw.array<s32[] @m0>, (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
    ```
  }];
  let arguments = (ins Pw_Array:$index, FlatSymbolRefArrayAttr:$branches, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = [{
    $index `among` $branches `(` $inputs `)` attr-dict `:` type($index) `,` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def Pw_WhileOp : Pw_ArrayOp<"while", [HasParent<"ProgramOp">]> {
  let summary = "run the turns of a loop, as long as a value is true";
  let description = [{
    `predicate` is a scalar `pred` of one shard. While it is true, program `turn`, which stands before this one, runs. Its arguments are the inputs; its
    results are the outputs, which take the places of the last inputs in the next turn, and the next predicate. The hosts decide about the turns
    themselves. The controller cuts a client's program into parts at such nodes, and lowers the turn by itself (pathways/program/cut.h).
    `pw-lower-to-hosts` rejects the nodes.

    ```mlir
    %2 = pw.while %0 do @b0(%1) : !pw.array<pred[] @m0>, (!pw.array<f32[4] @m0>) -> !pw.array<f32[4] @m0>
    ```
  }];
  let arguments = (ins Pw_Array:$predicate, FlatSymbolRefAttr:$turn, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = [{
    $predicate `do` $turn `(` $inputs `)` attr-dict `:` type($predicate) `,` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def Pw_ResultOp : Pw_ArrayOp<"result", [HasParent<"ProgramOp">]> {
  let summary = "a result of the program";
  let description = [{
    Results are numbered in the order of these operations.
  }];
  let arguments = (ins Pw_Array:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

//===-- Host programs

// A step of a host program. It names arrays by slots (pathways/program/command_template.h), written `argument 0`, `result 1`, `name 2`.
class Pw_Step<string mnemonic, list<Trait> traits = []> : Pw_Op<mnemonic, traits # [HasParent<"HostProgramOp">]>;

def Pw_HostProgramOp : Pw_Op<"host_program", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "the steps of each host of a group in one run of the program, in order";
  let description = [{
    Steps name arrays by slots. Each run fills the slots with ids: `argument k` and `result k` are the run's arguments and results,
    and `name k` is a new id in each run. Each host of the group performs a step for the shards that lie on it.

    ```mlir
    pw.host_program hosts [1, 2] {
      pw.execute @e0(argument 0) to (name 0) launch name 1
      pw.move 0 name 0 to result 0 : !pw.array<f32[4] @m0> to !pw.array<f32[4] @m1>
      pw.release (name 0)
    }
    ```
  }];
  let arguments = (ins DenseI32ArrayAttr:$hosts);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`hosts` $hosts attr-dict-with-keyword $body";
}

def Pw_ExecuteOp : Pw_Step<"execute", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "run an executable on the host's devices of its mesh";
  let description = [{
    `keeping` lists arguments that the executable donates but must not take over in this step. `launch` is the slot of the launch's id,
    which is the same on all hosts of the launch. A launch on one host has none.
  }];
  let arguments = (ins FlatSymbolRefAttr:$executable, DenseI64ArrayAttr:$takes, DenseI64ArrayAttr:$makes,
                   OptionalAttr<DenseI32ArrayAttr>:$keeping, OptionalAttr<I64Attr>:$launch);
  let assemblyFormat = [{
    $executable `` custom<Slots>($takes) `to` custom<Slots>($makes) (`keeping` $keeping^)? `` custom<Launch>($launch) attr-dict
  }];
}

def Pw_MoveOp : Pw_Step<"move"> {
  let summary = "the host's part of a transfer";
  let description = [{
    Move `number` is the same transfer in all host programs that list it.
  }];
  let arguments = (ins I32Attr:$number, I64Attr:$source, I64Attr:$target, TypeAttrOf<Pw_Array>:$from, TypeAttrOf<Pw_Array>:$to);
  let assemblyFormat = "$number custom<Slot>($source) `to` custom<Slot>($target) attr-dict `:` $from `to` $to";
}

def Pw_AliasOp : Pw_Step<"alias"> {
  let summary = "another name for the host's shards of an array";
  let description = [{
    `apart`: the caller passed one array for each shard. Shard `i` of `target` is the only shard of the array in the `i`-th slot after `source`.
  }];
  let arguments = (ins I64Attr:$target, I64Attr:$source, UnitAttr:$apart, TypeAttrOf<Pw_Array>:$type);
  let assemblyFormat = "custom<Slot>($target) `of` (`apart` $apart^)? custom<Slot>($source) attr-dict `:` $type";
}

def Pw_ReleaseOp : Pw_Step<"release"> {
  let summary = "release arrays that the host no longer needs";
  let description = [{
    `apart` is the type of an argument that the caller passed as one array for each shard. The slot given holds shard 0; the slot `i`
    after it holds shard `i`. The host releases its own shards.
  }];
  let arguments = (ins DenseI64ArrayAttr:$arrays, OptionalAttr<TypeAttrOf<Pw_Array>>:$apart);
  let assemblyFormat = "custom<Slots>($arrays) (`apart` $apart^)? attr-dict";
}

#endif  // PATHWAYS_IR_OPS_TD
