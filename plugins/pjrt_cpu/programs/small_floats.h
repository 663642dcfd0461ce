// Translates small floating-point types in MLIR bytecode from newer versions.
//
// Newer MLIR encodes f8E4M3FN, f4E2M1FN and similar types as numbers in bytecode; older MLIR, such as this XLA's, reads and
// writes them as text. StableHLO's compatibility promise does not cover this: in a program with shardings, the operands of
// Shardy's operations have MLIR's own types, which no version of StableHLO replaces. So the text, which both versions read,
// replaces the numbers.
//
// Invariants:
//  1. Only a module's two type sections change, and the padding of aligned sections. Types keep their index in the table, so
//     references to them stay valid.
//  2. Input that is not bytecode, is malformed or has no such type is left to the parser: the result is nullopt, without a copy.
//  3. The input comes from clients. Nothing outside `module` is read, and the work is linear in its size.
// Pure; includes only the standard library.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pw::pjrt_cpu {

// Returns the module with such types as text; nullopt if it has none.
std::optional<std::string> WithSmallFloatsAsText(std::string_view module);

}  // namespace pw::pjrt_cpu
