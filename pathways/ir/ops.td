// The operations, in the order in which a program meets them.
#ifndef PATHWAYS_IR_OPS_TD
#define PATHWAYS_IR_OPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "pathways/ir/dialect.td"

class Pw_Op<string mnemonic, list<Trait> traits = []> : Op<Pw_Dialect, mnemonic, traits>;
// Operations on arrays check that the meshes of their types exist and are large enough.
class Pw_ArrayOp<string mnemonic, list<Trait> traits = []>
    : Pw_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

//===-- What a program refers to

def Pw_MeshOp : Pw_Op<"mesh", [Symbol]> {
  let summary = "a list of devices";
  let description = [{
    `on` lists the devices that the client named, by the numbers that the client knows them by. Without it, any will do.
    `pw-assign-virtual-devices` replaces it by `virtual`: positions in `pw.virtual_devices`.

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
  let summary = "a compiled module: what its computations take and make";
  let description = [{
    The module is opaque here: it is the client's executable number `number`. It runs on all devices of a mesh at once. `donates` lists
    the arguments whose memory it takes over.

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
    One entry for each virtual device: the client's number for it, or -1 where any will do. `pw-place` replaces the latter, and adds the
    host of each.

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
  let summary = "the cluster as it is now: the mapping, and the network";
  let description = [{
    Entry `i` of each list is about one device that a client may know: its number, the physical device that it is on, its host,
    and its island. `latency_bytes` is what a step between hosts costs beside its bytes, expressed in bytes; `distant` is how many times
    dearer a byte is between islands than inside one.

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
  let summary = "a dataflow graph: what the user's function does with arrays";
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
    Numbered in order. `donated`: the caller gives it up. `apart`: it comes as one array for each shard.

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
    Operands have the types and shapes of the executable's parameters; where they lie is seen to by `pw-insert-transfers`.
    Results are exactly the executable's.

    ```mlir
    %1:2 = pw.compute @e0(%0) : (!pw.array<f32[4] @m0>) -> (!pw.array<f32[4] @m0>, !pw.array<f32[] @m0>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$executable, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = "$executable `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Pw_TransferOp : Pw_ArrayOp<"transfer", [HasParent<"ProgramOp">, Pure]> {
  let summary = "the same elements elsewhere";
  let description = [{
    On other devices, cut another way, or in another kind of memory. `pw-choose-routes` says how it is done and how many bytes
    cross between hosts: `local` (none), `copy` (shard to shard), `scatter` (into more tiles), `gather` (into fewer), `reshard`.

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
  let summary = "a function of the client's process, between computations";
  let description = [{
    `function` is its name for people, `callback` the client's number for it. Operands have one shard each; what it makes is the same on
    all devices of its mesh. The controller cuts a client's program at such nodes into parts before it lowers them
    (pathways/program/cut.h): `pw-lower-to-hosts` refuses them.

    ```mlir
    %1 = pw.host_compute "tokenize" callback 7 (%0) : (!pw.array<u8[64] @m0>) -> !pw.array<s32[16] @m0>
    ```
  }];
  let arguments = (ins StrAttr:$function, OptionalAttr<I64Attr>:$callback, Variadic<Pw_Array>:$inputs);
  let results = (outs Variadic<Pw_Array>:$outputs);
  let assemblyFormat = "$function (`callback` $callback^)? `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
  let hasVerifier = 1;
}

def Pw_SelectOp : Pw_ArrayOp<"select", [HasParent<"ProgramOp">]> {
  let summary = "a data-dependent node: what runs depends on a value";
  let description = [{
    `index` is a scalar integer of one shard; when it is known, the branch that it counts to runs on the inputs: an executable, or a
    program that stands before this one. All take and make the same. What it needs is not known before: such a node is dispatched when its
    predecessors have ended. The controller cuts a client's program at such nodes into parts before it lowers them
    (pathways/program/cut.h): `pw-lower-to-hosts` refuses them.

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

def Pw_ResultOp : Pw_ArrayOp<"result", [HasParent<"ProgramOp">]> {
  let summary = "a result of the program";
  let description = [{ Results are numbered in the order in which they stand. }];
  let arguments = (ins Pw_Array:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

//===-- Host programs

// Slots (pathways/program/command_template.h), written `argument 0`, `result 1`, `name 2`.
class Pw_Step<string mnemonic, list<Trait> traits = []> : Pw_Op<mnemonic, traits # [HasParent<"HostProgramOp">]>;

def Pw_HostProgramOp : Pw_Op<"host_program", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "what each host of a group does in one run of the program, in order";
  let description = [{
    Arrays are slots, filled when the program runs: `argument k` and `result k` of the run, and `name k`, which is new in each run. A
    host that lists a step does its own part of it: the shards that lie there.

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
    `keeping` lists arguments that the executable would take over but must not. `launch` names the launch on all its hosts, where there
    are several.
  }];
  let arguments = (ins FlatSymbolRefAttr:$executable, DenseI64ArrayAttr:$takes, DenseI64ArrayAttr:$makes,
                   OptionalAttr<DenseI32ArrayAttr>:$keeping, OptionalAttr<I64Attr>:$launch);
  let assemblyFormat = [{
    $executable `` custom<Slots>($takes) `to` custom<Slots>($makes) (`keeping` $keeping^)? `` custom<Launch>($launch) attr-dict
  }];
}

def Pw_MoveOp : Pw_Step<"move"> {
  let summary = "the host's part of a transfer";
  let description = [{ Move `number` is the same one in all host programs that list it. }];
  let arguments = (ins I32Attr:$number, I64Attr:$source, I64Attr:$target, TypeAttrOf<Pw_Array>:$from, TypeAttrOf<Pw_Array>:$to);
  let assemblyFormat = "$number custom<Slot>($source) `to` custom<Slot>($target) attr-dict `:` $from `to` $to";
}

def Pw_AliasOp : Pw_Step<"alias"> {
  let summary = "another name for the host's shards of an array";
  let description = [{
    `apart`: shard `i` is the only shard of the argument that comes `i` after `source`.
  }];
  let arguments = (ins I64Attr:$target, I64Attr:$source, UnitAttr:$apart, TypeAttrOf<Pw_Array>:$type);
  let assemblyFormat = "custom<Slot>($target) `of` (`apart` $apart^)? custom<Slot>($source) attr-dict `:` $type";
}

def Pw_ReleaseOp : Pw_Step<"release"> {
  let summary = "the host is done with arrays";
  let description = [{ `apart`: with those that hold its shards, counted from the one given. }];
  let arguments = (ins DenseI64ArrayAttr:$arrays, OptionalAttr<TypeAttrOf<Pw_Array>>:$apart);
  let assemblyFormat = "custom<Slots>($arrays) (`apart` $apart^)? attr-dict";
}

#endif  // PATHWAYS_IR_OPS_TD
