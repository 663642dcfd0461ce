// The dialect and its one type. docs/ir.md is generated from these definitions.
#ifndef PATHWAYS_IR_DIALECT_TD
#define PATHWAYS_IR_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Pw_Dialect : Dialect {
  let name = "pw";
  let cppNamespace = "::pw::ir";
  let summary = "Programs of sharded computations, from what a client asks for to what each host does";
  let description = [{
    A program is a dataflow graph of sharded arrays. It enters without places (`pw.program`, over `pw.mesh`es of devices that the
    client named, or none), and is lowered pass by pass until there is one list of steps for each group of hosts (`pw.host_program`).
    The number of operations does not depend on the number of shards, nor on the number of hosts with the same part.

    Locations are the user's: `fused<NODE>["function"("file.py":LINE:0)]`, where NODE numbers the client's node. An error of any
    pass is reported there.
  }];
  let useDefaultTypePrinterParser = 1;
}

def Pw_Array : TypeDef<Pw_Dialect, "Array"> {
  let mnemonic = "array";
  let summary = "an array, cut into tiles that lie on the devices of a mesh";
  let description = [{
    Shard `i` lies on device `i` of the mesh. Without `tiles` every shard holds everything. `tiles [2, 1]` cuts dimension 0 into two
    pieces; shard `i` holds tile `i`, counted row-major, or the one that `order` names for it. `memory` is the kind of memory, the
    default one if it is not given.

    ```mlir
    !pw.array<f32[4, 8] @m0>
    !pw.array<f32[4, 8] @m0 tiles [2, 1] order [1, 0] memory "pinned_host">
    ```
  }];
  let parameters = (ins
    "::pw::buffers::DType":$dtype,
    ArrayRefParameter<"int64_t">:$dims,
    "::mlir::FlatSymbolRefAttr":$mesh,
    ArrayRefParameter<"int64_t">:$tiles,
    ArrayRefParameter<"int32_t">:$order,
    StringRefParameter<"kind of memory">:$memory);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // The same type and shape, wherever it lies.
    bool sameElements(ArrayType other) const { return getDtype() == other.getDtype() && getDims() == other.getDims(); }
    // The same tiles on the same devices, in whatever memory.
    bool samePlace(ArrayType other) const {
      return getMesh() == other.getMesh() && getTiles() == other.getTiles() && getOrder() == other.getOrder();
    }
    // Bytes of the whole array, each element once.
    int64_t bytes() const;
    // "f32[4, 8]"
    std::string shape() const;
  }];
}

#endif  // PATHWAYS_IR_DIALECT_TD
