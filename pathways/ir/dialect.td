// The dialect and its one type. docs/ir.md is generated from these definitions.
#ifndef PATHWAYS_IR_DIALECT_TD
#define PATHWAYS_IR_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"

def Pw_Dialect : Dialect {
  let name = "pw";
  let cppNamespace = "::pw::ir";
  let summary = "Programs of sharded computations, lowered from the client's graph to the steps of each host";
  let description = [{
    A program is a dataflow graph of sharded arrays. It starts as a `pw.program`, whose arrays lie on `pw.mesh`es. A mesh lists devices
    that the client named, or only gives their number. The passes lower the program to one list of steps for each group of hosts
    (`pw.host_program`). The number of operations depends neither on the number of shards nor on the number of hosts with the same steps.

    Locations point into the user's source: `fused<NODE>["function"("file.py":LINE:0)]`, where NODE is the number of the client's node.
    Passes report their errors at these locations.
  }];
  let useDefaultTypePrinterParser = 1;
}

def Pw_Array : TypeDef<Pw_Dialect, "Array"> {
  let mnemonic = "array";
  let summary = "an array whose tiles lie on the devices of a mesh";
  let description = [{
    Shard `i` lies on device `i` of the mesh. Without `tiles`, each shard holds the whole array. `tiles [2, 1]` cuts dimension 0 into two
    pieces. Tiles are numbered in row-major order. Shard `i` holds tile `i`, or tile `order[i]` if there is an `order`. `memory` is the
    kind of memory; without it, the array is in the default memory.

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
    // Returns whether the element types and shapes are equal. The placement may differ.
    bool sameElements(ArrayType other) const { return getDtype() == other.getDtype() && getDims() == other.getDims(); }
    // Returns whether both have the same tiles on the same devices. The kind of memory may differ.
    bool samePlace(ArrayType other) const {
      return getMesh() == other.getMesh() && getTiles() == other.getTiles() && getOrder() == other.getOrder();
    }
    // Returns the size of the whole array, each element counted once.
    int64_t bytes() const;
    // Returns the element type and shape as text: "f32[4, 8]".
    std::string shape() const;
  }];
}

#endif  // PATHWAYS_IR_DIALECT_TD
